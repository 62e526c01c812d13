import { AuthApiError, AuthWeakPasswordError } from '@supabase/auth-js';
import { expect, test } from 'vitest';
import { describeAuthProblem } from './auth-error-texts.ts';

test('known codes have their own text', () => {
  expect(
    describeAuthProblem(new AuthApiError('Invalid TOTP code entered', 422, 'mfa_verification_failed'), 'x'),
  ).toBe('That code is not right or was already used. Enter the one shown now.');
  expect(describeAuthProblem(new AuthWeakPasswordError('weak', 422, ['pwned']), 'x')).toBe(
    'This password is easy to guess. Choose another one.',
  );
});

test.each([
  ['a code without words', new AuthApiError('invalid claim: sub claim must be a UUID', 403, 'bad_jwt')],
  ['a code with the name of an inherited property', new AuthApiError('x', 400, 'constructor')],
  ['an error of the browser', new TypeError('x is not a function')],
  ['nothing', undefined],
])('%s gets the fallback, never a message of a program', (_, error) =>
  expect(describeAuthProblem(error, 'That did not work')).toBe('That did not work'),
);
