import { describe, expect, test } from 'vitest';
import { completeSettings } from '../settings.ts';
import { fixedPhoneCode, hashPhoneCode, isPhoneCode, newPhoneCode } from './phone-code.ts';

const challenge = '0b6a7c52-6a60-4d0c-9ad9-50e1f5f3b1f1';

describe('the code of a phone factor', () => {
  test('has as many digits as asked for, zeros in front included', () => {
    const codes = Array.from({ length: 200 }, () => newPhoneCode(6));
    expect(codes.every((code) => /^[0-9]{6}$/.test(code))).toBe(true);
    expect(codes.some((code) => code.startsWith('0'))).toBe(true);
    expect(new Set(codes).size).toBeGreaterThan(190);
    expect(newPhoneCode(8)).toMatch(/^[0-9]{8}$/);
  });

  test('fits the hash of its own challenge alone', () => {
    const kept = hashPhoneCode(challenge, '012345');
    expect(isPhoneCode(challenge, '012345', kept)).toBe(true);
    expect(isPhoneCode(challenge, '12345', kept)).toBe(false);
    expect(isPhoneCode(challenge.replace('0', '1'), '012345', kept)).toBe(false);
    expect(isPhoneCode(challenge, '', null)).toBe(false);
  });

  test('is fixed for a phone of the settings, until their end', () => {
    const addresses = { externalUrl: 'https://shop.example/auth/v1', siteUrl: 'https://shop.example' };
    const settings = completeSettings({
      ...addresses,
      testPhones: { '254700000001': '123456' },
      testPhonesUntil: new Date('2030-01-01'),
    });
    const on = (date: string) => ({ settings, now: () => new Date(date) });
    expect(fixedPhoneCode(on('2029-12-31'), '254700000001')).toBe('123456');
    expect(fixedPhoneCode(on('2030-01-01'), '254700000001')).toBeNull();
    expect(fixedPhoneCode(on('2029-12-31'), '254700000002')).toBeNull();
    expect(fixedPhoneCode(on('2029-12-31'), 'constructor')).toBeNull();
  });
});
