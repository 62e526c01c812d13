-- Replaces: 0011_inline_auth_functions
-- Users, sessions and the claims of a request: the auth schema with the names of a hosted project, so that policies and foreign
-- keys fit both. Only the auth service reads and writes these tables.

create schema auth;
grant usage on schema auth to anon, authenticated, service_role;

create type auth.aal_level as enum ('aal1', 'aal2', 'aal3');
create type auth.factor_type as enum ('totp', 'webauthn', 'phone');
create type auth.factor_status as enum ('unverified', 'verified');
create type auth.code_challenge_method as enum ('s256', 'plain');
create type auth.one_time_token_type as enum (
  'confirmation_token',
  'reauthentication_token',
  'recovery_token',
  'email_change_token_new',
  'email_change_token_current',
  'phone_change_token'
);

create table auth.users (
  instance_id uuid,
  id uuid primary key default gen_random_uuid(),
  aud varchar(255) not null default 'authenticated',
  role varchar(255) not null default 'authenticated',
  email varchar(255),
  encrypted_password varchar(255),
  email_confirmed_at timestamptz,
  invited_at timestamptz,
  confirmation_token varchar(255),
  confirmation_sent_at timestamptz,
  recovery_token varchar(255),
  recovery_sent_at timestamptz,
  email_change_token_new varchar(255),
  email_change varchar(255),
  email_change_sent_at timestamptz,
  last_sign_in_at timestamptz,
  raw_app_meta_data jsonb not null default '{}',
  raw_user_meta_data jsonb not null default '{}',
  is_super_admin boolean,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  phone text,
  phone_confirmed_at timestamptz,
  phone_change text,
  phone_change_token varchar(255),
  phone_change_sent_at timestamptz,
  confirmed_at timestamptz generated always as (least(email_confirmed_at, phone_confirmed_at)) stored,
  email_change_token_current varchar(255),
  email_change_confirm_status smallint not null default 0,
  banned_until timestamptz,
  reauthentication_token varchar(255),
  reauthentication_sent_at timestamptz,
  is_sso_user boolean not null default false,
  deleted_at timestamptz,
  is_anonymous boolean not null default false,
  constraint users_email_change_confirm_status_check check (email_change_confirm_status between 0 and 2)
);
comment on table auth.users is 'Users who can sign in.';
comment on column auth.users.encrypted_password is 'An argon2id hash in PHC form, or null.';
comment on column auth.users.confirmation_token is
  'This and the other token columns exist for scripts written for hosted projects; tokens are stored in one_time_tokens.';
comment on column auth.users.email_change is 'The requested new address; null or empty when no change is pending.';
comment on column auth.users.email_change_confirm_status is
  'Which of the two addresses has confirmed the change: 0 none, 1 the new one, 2 the current one.';
alter table auth.users enable row level security;
-- A user of single sign-on may share the email address of a user who signed up.
create unique index users_email_partial_key on auth.users (lower(email)) where not is_sso_user;
create unique index users_phone_key on auth.users (phone);
create index users_created_at on auth.users (created_at desc, id);

create table auth.identities (
  id uuid primary key default gen_random_uuid(),
  provider_id text not null,
  user_id uuid not null references auth.users (id) on delete cascade,
  identity_data jsonb not null,
  provider text not null,
  last_sign_in_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  email text generated always as (lower(identity_data ->> 'email')) stored,
  constraint identities_provider_id_provider_unique unique (provider_id, provider)
);
comment on table auth.identities is 'Identities of users at sign-in providers.';
alter table auth.identities enable row level security;
create index identities_user_id on auth.identities (user_id);
create index identities_email on auth.identities (email);

create table auth.sessions (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  factor_id uuid,
  aal auth.aal_level not null default 'aal1',
  not_after timestamptz,
  refreshed_at timestamptz,
  user_agent text,
  ip inet,
  tag text,
  oauth_client_id uuid,
  scopes text,
  refresh_token_hmac_key text not null,
  refresh_token_counter bigint not null default 0
);
comment on table auth.sessions is 'Sessions of users.';
comment on column auth.sessions.refresh_token_hmac_key is
  'Derives each refresh token from the previous one, so that none is stored.';
alter table auth.sessions enable row level security;
create index sessions_user_id on auth.sessions (user_id, created_at desc);
create index sessions_not_after on auth.sessions (not_after) where not_after is not null;

create table auth.refresh_tokens (
  instance_id uuid,
  id bigint primary key generated always as identity,
  token varchar(255) not null,
  user_id varchar(255) not null,
  revoked boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  parent varchar(255),
  session_id uuid not null references auth.sessions (id) on delete cascade,
  constraint refresh_tokens_token_unique unique (token)
);
comment on table auth.refresh_tokens is 'One family per session; the newest token is active.';
comment on column auth.refresh_tokens.token is 'SHA-256 of the token, hexadecimal; parent likewise.';
alter table auth.refresh_tokens enable row level security;
create index refresh_tokens_session_id on auth.refresh_tokens (session_id, revoked);
create index refresh_tokens_parent on auth.refresh_tokens (parent);

create table auth.mfa_factors (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  friendly_name text,
  factor_type auth.factor_type not null,
  status auth.factor_status not null default 'unverified',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  secret text,
  phone text,
  last_challenged_at timestamptz,
  last_used_step bigint,
  web_authn_credential jsonb,
  web_authn_aaguid uuid,
  last_webauthn_challenge_data jsonb
);
comment on table auth.mfa_factors is 'Second factors of users.';
comment on column auth.mfa_factors.last_used_step is 'Time step of the last accepted code: each code is accepted once.';
alter table auth.mfa_factors enable row level security;
create index mfa_factors_user_id on auth.mfa_factors (user_id, created_at);
create unique index mfa_factors_user_friendly_name_unique on auth.mfa_factors (user_id, friendly_name)
  where trim(friendly_name) <> '';
create unique index mfa_factors_user_phone_unique on auth.mfa_factors (user_id, phone);

create table auth.mfa_challenges (
  id uuid primary key default gen_random_uuid(),
  factor_id uuid not null references auth.mfa_factors (id) on delete cascade,
  created_at timestamptz not null default now(),
  verified_at timestamptz,
  ip_address inet,
  otp_code text,
  failed_attempts integer not null default 0,
  web_authn_session_data jsonb
);
comment on column auth.mfa_challenges.otp_code is 'SHA-256 of challenge id and code, hexadecimal.';
alter table auth.mfa_challenges enable row level security;
create index mfa_challenges_factor_id on auth.mfa_challenges (factor_id);
create index mfa_challenges_created_at on auth.mfa_challenges (created_at);

create table auth.mfa_amr_claims (
  id uuid primary key default gen_random_uuid(),
  session_id uuid not null references auth.sessions (id) on delete cascade,
  authentication_method text not null,
  provider text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint mfa_amr_claims_session_id_authentication_method_key unique (session_id, authentication_method)
);
comment on table auth.mfa_amr_claims is 'How and when the user of a session authenticated.';
alter table auth.mfa_amr_claims enable row level security;

create table auth.flow_state (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users (id) on delete cascade,
  auth_code text unique,
  code_challenge_method auth.code_challenge_method,
  code_challenge text,
  provider_type text not null,
  provider_access_token text,
  provider_refresh_token text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  authentication_method text not null,
  auth_code_issued_at timestamptz,
  invite_token text,
  referrer text,
  oauth_client_state_id uuid,
  linking_target_id uuid,
  email_optional boolean not null default false,
  client_state jsonb,
  used_at timestamptz
);
comment on table auth.flow_state is 'Sign-ins that continue elsewhere: on a provider''s page, or by an emailed link.';
comment on column auth.flow_state.auth_code is 'SHA-256 of the code, hexadecimal.';
comment on column auth.flow_state.client_state is 'Values needed when the user returns: nonce, verifier.';
alter table auth.flow_state enable row level security;
create index flow_state_created_at on auth.flow_state (created_at desc);
create index flow_state_user_id on auth.flow_state (user_id, authentication_method);

create table auth.one_time_tokens (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  token_type auth.one_time_token_type not null,
  token_hash text not null,
  relates_to text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  flow_state_id uuid references auth.flow_state (id) on delete set null,
  constraint one_time_tokens_token_hash_check check (token_hash <> '')
);
comment on table auth.one_time_tokens is
  'Unused codes and links. Requesting one leaves earlier ones valid: a stranger may have requested it, and the owner opens the older email.';
comment on column auth.one_time_tokens.token_hash is 'SHA-224 of address and code; starts with `pkce_` in a PKCE flow.';
comment on column auth.one_time_tokens.flow_state_id is 'The PKCE flow that the link ends; null without PKCE.';
alter table auth.one_time_tokens enable row level security;
create index one_time_tokens_user_id on auth.one_time_tokens (user_id, token_type, created_at desc);
create index one_time_tokens_token_hash on auth.one_time_tokens (token_hash);
create index one_time_tokens_relates_to on auth.one_time_tokens (relates_to);
create index one_time_tokens_flow_state_id on auth.one_time_tokens (flow_state_id);

create table auth.sso_providers (
  id uuid primary key default gen_random_uuid(),
  resource_id text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  disabled boolean not null default false
);
alter table auth.sso_providers enable row level security;
create unique index sso_providers_resource_id on auth.sso_providers (lower(resource_id));

create table auth.sso_domains (
  id uuid primary key default gen_random_uuid(),
  sso_provider_id uuid not null references auth.sso_providers (id) on delete cascade,
  domain text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
alter table auth.sso_domains enable row level security;
create unique index sso_domains_domain on auth.sso_domains (lower(domain));
create index sso_domains_sso_provider_id on auth.sso_domains (sso_provider_id);

create table auth.saml_providers (
  id uuid primary key default gen_random_uuid(),
  sso_provider_id uuid not null references auth.sso_providers (id) on delete cascade,
  entity_id text not null unique,
  metadata_xml text not null,
  metadata_url text,
  attribute_mapping jsonb,
  name_id_format text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
alter table auth.saml_providers enable row level security;
create index saml_providers_sso_provider_id on auth.saml_providers (sso_provider_id);

create table auth.saml_relay_states (
  id uuid primary key default gen_random_uuid(),
  sso_provider_id uuid not null references auth.sso_providers (id) on delete cascade,
  request_id text not null,
  for_email text,
  redirect_to text,
  flow_state_id uuid references auth.flow_state (id) on delete cascade,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
alter table auth.saml_relay_states enable row level security;
create index saml_relay_states_created_at on auth.saml_relay_states (created_at desc);

create table auth.saml_assertions_seen (
  assertion_id text primary key,
  expires_at timestamptz not null
);
comment on table auth.saml_assertions_seen is 'Accepted assertions that are still valid: each is accepted once.';
alter table auth.saml_assertions_seen enable row level security;

create table auth.webauthn_credentials (
  id uuid primary key default gen_random_uuid(),
  user_id uuid not null references auth.users (id) on delete cascade,
  credential_id text not null unique,
  public_key text not null,
  attestation_type text not null default '',
  aaguid uuid,
  sign_count bigint not null default 0,
  transports jsonb not null default '[]',
  backup_eligible boolean not null default false,
  backed_up boolean not null default false,
  friendly_name text not null default '',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  last_used_at timestamptz
);
comment on table auth.webauthn_credentials is 'Passkeys. Credential id and public key are base64url.';
alter table auth.webauthn_credentials enable row level security;
create index webauthn_credentials_user_id on auth.webauthn_credentials (user_id);

create table auth.webauthn_challenges (
  id uuid primary key default gen_random_uuid(),
  user_id uuid references auth.users (id) on delete cascade,
  challenge_type text not null,
  session_data jsonb not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  constraint webauthn_challenges_challenge_type_check check (challenge_type in ('registration', 'authentication'))
);
alter table auth.webauthn_challenges enable row level security;
create index webauthn_challenges_expires_at on auth.webauthn_challenges (expires_at);

create table auth.web3_messages_seen (
  message_hash text primary key,
  expires_at timestamptz not null
);
comment on table auth.web3_messages_seen is 'Accepted signed messages that are still valid: each is accepted once.';
alter table auth.web3_messages_seen enable row level security;

create table auth.audit_log_entries (
  instance_id uuid,
  id uuid primary key default gen_random_uuid(),
  payload jsonb not null,
  created_at timestamptz not null default now(),
  ip_address varchar(64) not null default ''
);
comment on table auth.audit_log_entries is 'Changes of accounts: actor, action, account.';
alter table auth.audit_log_entries enable row level security;
create index audit_log_entries_created_at on auth.audit_log_entries (created_at desc);

-- Unlogged: losing the counters in a crash grants no access.
create unlogged table auth.rate_limits (
  name text not null,
  subject text not null,
  window_start timestamptz not null,
  window_end timestamptz not null,
  used integer not null,
  primary key (name, subject)
);
comment on table auth.rate_limits is
  'Requests within a window, by IP address, email address or phone. Wrong codes count per address and network.';
alter table auth.rate_limits enable row level security;
create index rate_limits_window_end on auth.rate_limits (window_end);

create function auth.prune(keep interval default interval '1 day') returns void
language sql
set search_path = ''
begin atomic
  delete from auth.rate_limits where window_end < pg_catalog.now();
  delete from auth.one_time_tokens where created_at < pg_catalog.now() - greatest(keep, interval '7 days');
  delete from auth.flow_state where created_at < pg_catalog.now() - keep;
  delete from auth.saml_relay_states where created_at < pg_catalog.now() - keep;
  delete from auth.saml_assertions_seen where expires_at < pg_catalog.now();
  delete from auth.web3_messages_seen where expires_at < pg_catalog.now();
  delete from auth.mfa_challenges where created_at < pg_catalog.now() - keep;
  delete from auth.webauthn_challenges where expires_at < pg_catalog.now();
  delete from auth.sessions where not_after < pg_catalog.now() - keep;
end;
comment on function auth.prune(interval) is 'Deletes expired rows, some of them only after `keep`.';
revoke execute on function auth.prune(interval) from public;

-- Policies call these functions for each row. Without search_path they are inlined into their caller's plan.
create function auth.jwt() returns jsonb
language sql stable
return coalesce(nullif(pg_catalog.current_setting('request.jwt.claims', true), ''), '{}')::jsonb;
comment on function auth.jwt() is 'The verified claims of the request.';

create function auth.uid() returns uuid
language sql stable
return nullif(auth.jwt() ->> 'sub', '')::uuid;
comment on function auth.uid() is 'The signed-in user of the request, or null.';

create function auth.role() returns text
language sql stable
return auth.jwt() ->> 'role';

create function auth.email() returns text
language sql stable
return auth.jwt() ->> 'email';

grant execute on function auth.jwt(), auth.uid(), auth.role(), auth.email() to anon, authenticated, service_role;
