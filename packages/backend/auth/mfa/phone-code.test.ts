import { describe, expect, test } from 'vitest';
import { hashPhoneCode, isPhoneCode } from './phone-code.ts';

const challenge = '0b6a7c52-6a60-4d0c-9ad9-50e1f5f3b1f1';

describe('the code of a phone factor', () => {
  test('matches the hash of its own challenge only', () => {
    const storedHash = hashPhoneCode(challenge, '012345');
    expect(isPhoneCode(challenge, '012345', storedHash)).toBe(true);
    expect(isPhoneCode(challenge, '12345', storedHash)).toBe(false);
    expect(isPhoneCode(challenge.replace('0', '1'), '012345', storedHash)).toBe(false);
    expect(isPhoneCode(challenge, '', null)).toBe(false);
  });
});
