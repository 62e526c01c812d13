// Messages for failed sign-ins (docs/product.md#sign-in).
import { isAuthError } from '@supabase/auth-js';
import { describeAuthProblem } from '../../lib/auth-error-texts.ts';

/** @param problem error of the auth service, or any thrown value */
export function describeSignInProblem(problem: unknown): string {
  if (!isAuthError(problem) || !problem.message.trim()) return 'Login failed';
  if (problem.code === 'over_request_rate_limit') {
    return 'Too many attempts from your network. Use "Forgot password?" to get in by email, or try again later.';
  }
  return problem.message.includes('Invalid login credentials')
    ? 'Invalid email or password. Please check your credentials.'
    : describeAuthProblem(problem, 'Login failed');
}
