// Texts for the error codes of the auth service (docs/error-codes.md, Auth service).

const passwordRules: Readonly<Record<string, string>> = {
  length: 'Choose a password with at least 8 characters.',
  pwned: 'This password is easy to guess. Choose another one.',
};

const textsByCode: Readonly<Record<string, string>> = {
  invalid_credentials: 'Invalid email or password. Please check your credentials.',
  user_banned: 'This account is blocked. Please ask the owner of the shop.',
  email_not_confirmed: 'Please confirm your email address first.',
  over_request_rate_limit: 'Too many attempts. Please wait a few minutes, then try again.',
  over_email_send_rate_limit: 'We already sent an email. Please use the newest one.',
  over_sms_send_rate_limit: 'We already sent a text. Please use the newest code.',
  otp_expired: 'That code or link is not right, was already used, or has expired.',
  mfa_verification_failed: 'That code is not right or was already used. Enter the one shown now.',
  mfa_challenge_expired: 'That took too long. Please enter the code shown now.',
  mfa_factor_name_conflict: 'You already have an authenticator app of this name. Choose another name.',
  too_many_enrolled_mfa_factors:
    'You have as many authenticator apps as an account can have. Remove one first.',
  insufficient_aal: 'Please sign in again with the code from your authenticator app first.',
  webauthn_verification_failed: 'This passkey was not accepted. Please try again.',
  webauthn_credential_not_found: 'This passkey is not known here. Sign in with your password.',
  webauthn_credential_exists: 'This passkey is already in the list.',
  webauthn_challenge_not_found: 'That took too long. Please try again.',
  webauthn_challenge_expired: 'That took too long. Please try again.',
  too_many_passkeys: 'You have as many passkeys as an account can have. Remove one first.',
  same_password: 'The new password is the old one. Choose another one.',
  current_password_invalid: 'The current password is not right.',
  current_password_required: 'Please enter the current password.',
  reauthentication_not_valid: 'That code is not right or has expired.',
  session_not_found: 'Your session has ended. Please sign in again.',
  session_expired: 'Your session has ended. Please sign in again.',
};

/**
 * @param error error of the auth service, or any thrown value
 * @param fallback text for other codes and for browser errors
 */
export function describeAuthProblem(error: unknown, fallback: string): string {
  if (typeof error !== 'object' || error === null) return fallback;
  const { code, reasons, name } = error as { code?: unknown; reasons?: unknown; name?: unknown };
  if (code === 'weak_password') {
    const [reason] = Array.isArray(reasons) ? reasons : [];
    return textIn(passwordRules, reason) ?? 'This password is too weak. Choose a longer one.';
  }
  // The user closed the browser's dialog, or it timed out.
  if (name === 'NotAllowedError' || code === 'ERROR_CEREMONY_ABORTED')
    return 'The passkey was not used. Please try again.';
  return textIn(textsByCode, code) ?? fallback;
}

/** The text of a code that the table has itself, not by inheritance such as `constructor`. */
const textIn = (texts: Readonly<Record<string, string>>, key: unknown): string | undefined =>
  typeof key === 'string' && Object.hasOwn(texts, key) ? texts[key] : undefined;
