import { AuthApiError, AuthUnknownError } from '@supabase/auth-js';
import { expect, test } from 'vitest';
import { describeSignInProblem } from './sign-in-problem.ts';

test('wrong credentials have our own message', () =>
  expect(
    describeSignInProblem(new AuthApiError('Invalid login credentials', 400, 'invalid_credentials')),
  ).toBe('Invalid email or password. Please check your credentials.'));

test('too many attempts suggest the password reset by email', () =>
  expect(
    describeSignInProblem(new AuthApiError('Request rate limit reached', 429, 'over_request_rate_limit')),
  ).toBe(
    'Too many attempts from your network. Use "Forgot password?" to get in by email, or try again later.',
  ));

test('a blocked account is asked to contact the owner', () =>
  expect(describeSignInProblem(new AuthApiError('User is banned', 400, 'user_banned'))).toBe(
    'This account is blocked. Please ask the owner of the shop.',
  ));

test.each([new TypeError('x is not a function'), undefined, new AuthUnknownError(' ', null)])(
  'an unexpected error (%s) reads "Login failed"',
  (problem) => expect(describeSignInProblem(problem)).toBe('Login failed'),
);
