// A stand-in for the platform's Management API, as far as the CLI needs it to push settings and deploy the function.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

type Settings = Record<string, unknown>;

export interface ManagementApi {
  url: string;
  /** The project's auth settings, named as in the API. */
  auth: Settings;
  /** The project's settings of the table API. */
  tables: Settings;
  /** Requests that change something: method, path and body. */
  changes: { method: string; path: string; body: string }[];
  close(): Promise<void>;
}

const words = (text: string) => text.trim().split(/\s+/);
const cross = (prefix: string, names: string, suffixes: string) =>
  words(names).flatMap((name) => words(suffixes).map((suffix) => `${prefix}_${name}_${suffix}`));

/** All names of the answer, which versions 2.122 and 3 of the CLI require. */
const authNames = [
  ...cross(
    'external',
    `apple azure bitbucket discord facebook figma github gitlab google kakao keycloak linkedin_oidc notion slack slack_oidc spotify
     twitch twitter x workos zoom`,
    'additional_client_ids client_id email_optional enabled secret skip_nonce_check url',
  ),
  ...cross(
    'hook',
    `custom_access_token mfa_verification_attempt password_verification_attempt send_sms send_email before_user_created
     after_user_created`,
    'enabled uri secrets',
  ),
  ...cross(
    'mailer',
    'subjects templates',
    'confirmation email_change invite magic_link reauthentication recovery',
  ).map((name) => (name.startsWith('mailer_templates') ? `${name}_content` : name)),
  ...words(
    `password_changed email_changed phone_changed mfa_factor_enrolled mfa_factor_unenrolled identity_linked identity_unlinked`,
  ).flatMap((name) => [
    `mailer_notifications_${name}_enabled`,
    `mailer_subjects_${name}_notification`,
    `mailer_templates_${name}_notification_content`,
  ]),
  ...cross('sms_twilio', 'account message_service content verify_account verify_message_service', 'sid'),
  ...words(`
    api_max_request_duration db_max_pool_size db_max_pool_size_unit external_phone_enabled external_web3_ethereum_enabled
    external_web3_solana_enabled mailer_allow_unverified_email_sign_ins mfa_max_enrolled_factors mfa_phone_enroll_enabled
    mfa_phone_max_frequency mfa_phone_template mfa_phone_verify_enabled mfa_web_authn_enroll_enabled
    mfa_web_authn_verify_enabled nimbus_oauth_client_id nimbus_oauth_client_secret nimbus_oauth_email_optional
    oauth_server_authorization_path password_hibp_enabled password_required_characters rate_limit_anonymous_users
    rate_limit_email_sent rate_limit_sms_sent rate_limit_token_refresh rate_limit_web3 saml_allow_encrypted_assertions
    saml_enabled saml_external_url security_captcha_enabled security_captcha_provider security_captcha_secret
    security_sb_forwarded_for_enabled sessions_single_per_user sessions_tags sms_autoconfirm sms_max_frequency
    sms_messagebird_access_key sms_messagebird_originator sms_otp_exp sms_provider sms_template sms_test_otp
    sms_test_otp_valid_until sms_textlocal_api_key sms_textlocal_sender sms_twilio_auth_token sms_twilio_verify_auth_token
    sms_vonage_api_key sms_vonage_api_secret sms_vonage_from smtp_admin_email smtp_host smtp_pass smtp_port
    smtp_sender_name smtp_user webauthn_rp_display_name webauthn_rp_id webauthn_rp_origins`),
];

/** Settings of a new project. */
const newProject: Settings = {
  ...Object.fromEntries(authNames.map((name) => [name, null])),
  custom_oauth_enabled: false,
  custom_oauth_max_providers: 0,
  disable_signup: false,
  external_anonymous_users_enabled: false,
  external_email_enabled: true,
  jwt_exp: 3600,
  mailer_autoconfirm: false,
  mailer_otp_exp: 3600,
  mailer_otp_length: 6,
  mailer_secure_email_change_enabled: true,
  mfa_phone_otp_length: 6,
  mfa_totp_enroll_enabled: true,
  mfa_totp_verify_enabled: true,
  oauth_server_allow_dynamic_registration: false,
  oauth_server_enabled: false,
  passkey_enabled: false,
  password_min_length: 6,
  rate_limit_otp: 30,
  rate_limit_verify: 30,
  refresh_token_rotation_enabled: true,
  security_manual_linking_enabled: false,
  security_refresh_token_reuse_interval: 10,
  security_update_password_require_current_password: false,
  security_update_password_require_reauthentication: false,
  sessions_inactivity_timeout: 0,
  sessions_timebox: 0,
  site_url: 'http://localhost:3000',
  sms_otp_length: 6,
  smtp_max_frequency: 60,
  uri_allow_list: '',
};

/** Starts the stand-in with one new project. */
export async function startManagementApi(): Promise<ManagementApi> {
  const auth: Settings = { ...newProject };
  const tables: Settings = {
    db_schema: 'public,graphql_public',
    db_extra_search_path: 'public, extensions',
    max_rows: 1000,
    db_pool: null,
    db_pool_acquisition_timeout: 10,
    db_pool_max_idletime: 30,
    db_pool_max_lifetime: 1800,
  };
  const storage = {
    fileSizeLimit: 52_428_800,
    capabilities: { list_v2: true, iceberg_catalog: false },
    external: { upstreamTarget: 'main' },
    features: {
      imageTransformation: { enabled: false },
      s3Protocol: { enabled: true },
      purgeCache: { enabled: false },
      icebergCatalog: { enabled: false, maxCatalogs: 2, maxNamespaces: 5, maxTables: 10 },
      vectorBuckets: { enabled: true, maxBuckets: 10, maxIndexes: 5 },
    },
    migrationVersion: '1',
    databasePoolMode: 'transaction',
  };
  const changes: ManagementApi['changes'] = [];
  const answers: [RegExp, (body: Settings) => unknown][] = [
    [/\/billing\/addons$/, () => ({ selected_addons: [], available_addons: [] })],
    [/\/config\/auth$/, (body) => Object.assign(auth, body)],
    [/\/postgrest$/, (body) => Object.assign(tables, body)],
    [/\/config\/storage$/, () => storage],
    [/\/config\/database\/postgres$/, () => ({})],
    [
      /^\/v2\/projects\/\w+\/config$/,
      () => ({
        data: {
          type: 'project_config',
          id: 'abcdefghijklmnopqrst',
          attributes: {
            auth,
            api: tables,
            database: {
              major_version: 17,
              ssl_enforced: false,
              network_restrictions: { entitlement: 'allowed', status: 'applied', allowed_cidrs: [] },
              postgres_settings: {},
            },
          },
        },
      }),
    ],
  ];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString('latin1');
    const { pathname } = new URL(request.url ?? '/', 'http://api.test');
    const method = request.method ?? 'GET';
    if (method !== 'GET') changes.push({ method, path: pathname, body });
    const answer = answers.find(([path]) => path.test(pathname))?.[1];
    const sent = method === 'PATCH' || method === 'PUT' ? (JSON.parse(body) as Settings) : {};
    response.setHeader('content-type', 'application/json');
    response.statusCode = answer ? 200 : 404;
    response.end(JSON.stringify(answer?.(sent) ?? { message: 'Not found' }));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    auth,
    tables,
    changes,
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
