// Rows of the auth schema as queries return them: timestamps as text, json parsed.

export type Json = Record<string, unknown>;

export interface UserRow {
  id: string;
  aud: string;
  role: string;
  email: string | null;
  encrypted_password: string | null;
  email_confirmed_at: string | null;
  invited_at: string | null;
  confirmation_sent_at: string | null;
  recovery_sent_at: string | null;
  email_change: string | null;
  email_change_sent_at: string | null;
  email_change_confirm_status: number;
  last_sign_in_at: string | null;
  raw_app_meta_data: Json;
  raw_user_meta_data: Json;
  created_at: string;
  updated_at: string;
  phone: string | null;
  phone_confirmed_at: string | null;
  phone_change: string | null;
  phone_change_sent_at: string | null;
  confirmed_at: string | null;
  banned_until: string | null;
  reauthentication_sent_at: string | null;
  is_sso_user: boolean;
  deleted_at: string | null;
  is_anonymous: boolean;
}

export interface IdentityRow {
  id: string;
  provider_id: string;
  user_id: string;
  identity_data: Json;
  provider: string;
  last_sign_in_at: string | null;
  created_at: string;
  updated_at: string;
  email: string | null;
}

export interface SessionRow {
  id: string;
  user_id: string;
  created_at: string;
  updated_at: string;
  factor_id: string | null;
  aal: 'aal1' | 'aal2';
  not_after: string | null;
  refreshed_at: string | null;
  user_agent: string | null;
  ip: string | null;
  tag: string | null;
  refresh_token_hmac_key: string;
}

export interface FactorRow {
  id: string;
  user_id: string;
  friendly_name: string | null;
  factor_type: 'totp' | 'phone' | 'webauthn';
  status: 'unverified' | 'verified';
  phone: string | null;
  last_challenged_at: string | null;
  created_at: string;
  updated_at: string;
}

/** RFC 3339 in UTC of a timestamp as PostgreSQL prints it. */
export function rfc3339(timestamp: string): string;
export function rfc3339(timestamp: string | null): string | undefined;
export function rfc3339(timestamp: string | null): string | undefined {
  return timestamp === null ? undefined : new Date(timestamp).toISOString();
}
