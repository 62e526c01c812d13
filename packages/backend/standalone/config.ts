// The settings of the standalone data service, with PostgREST's names.
import { readFileSync } from 'node:fs';
import type { JWK } from 'jose';
import type { DataServiceOptions } from '../data/service.ts';
import { WrongSetting } from '../wrong-setting.ts';
import type { ClaimStep, TokenSettings, VerifyingKey } from './token-check.ts';

export interface DataConfig {
  /** postgres:// URL. */
  databaseUrl: string;
  host: string;
  port: number;
  /** A socket file that it listens on in place of the port, and its mode; null for none. */
  socket: { path: string; mode: number } | null;
  /** Address of the health endpoints; null for none. */
  admin: { host: string; port: number } | null;
  /** Connections to the database. */
  poolSize: number;
  /** Milliseconds a request waits for one of them. */
  poolTimeout: number;
  /** Whether statements are prepared by name, which a pooler in transaction mode does not allow. */
  namesStatements: boolean;
  /** Settings with PostgREST's prefix that have no effect here. */
  unused: readonly string[];
  /** Notification channel for changed settings; null for none. */
  channel: string | null;
  /** Whether the database may hold settings, and the function that sets some of them. */
  inDatabase: { preConfig: { schema: string; name: string } | null } | null;
  service: Omit<DataServiceOptions, 'database'>;
  tokens: TokenSettings;
  /** Allowed origins of pages; null for all. */
  allowedOrigins: readonly string[] | null;
  /** A header of requests that answers repeat; null for none. */
  traceHeader: string | null;
}

type Text = (name: string) => string | undefined;
type Environment = Readonly<Record<string, string | undefined>>;

/** Settings that may be stored in the database, as `pgrst.db_schemas`; they take precedence over the environment. */
export const settingsInDatabase: readonly string[] = [
  'db_aggregates_enabled',
  'db_anon_role',
  'db_extra_search_path',
  'db_hoisted_tx_settings',
  'db_max_rows',
  'db_plan_enabled',
  'db_pre_config',
  'db_pre_request',
  'db_root_spec',
  'db_schemas',
  'db_tx_end',
  'jwt_aud',
  'jwt_cache_max_entries',
  'jwt_role_claim_key',
  'jwt_secret',
  'jwt_secret_is_base64',
  'openapi_mode',
  'openapi_security_active',
  'openapi_server_proxy_uri',
  'server_cors_allowed_origins',
  'server_timing_enabled',
  'server_trace_header',
];

// Former names in PostgREST.
const formerNames: Readonly<Record<string, string>> = {
  DB_MAX_ROWS: 'MAX_ROWS',
  DB_PRE_REQUEST: 'PRE_REQUEST',
  DB_ROOT_SPEC: 'ROOT_SPEC',
  DB_SCHEMAS: 'DB_SCHEMA',
  JWT_ROLE_CLAIM_KEY: 'ROLE_CLAIM_KEY',
  JWT_SECRET_IS_BASE64: 'SECRET_IS_BASE64',
};

/**
 * Reads them. Those that name a file (`@path`) are read from it.
 * @param environment variables such as `PGRST_DB_SCHEMAS`; blank ones count as not set
 * @param inDatabase values of `settingsInDatabase` from the database, by name
 * @returns null when `PGRST_DB_URI` is not set: the standalone data service is not used
 * @throws WrongSetting naming the first wrong one
 */
export function readDataConfig(
  environment: Environment,
  inDatabase: ReadonlyMap<string, string> = new Map(),
): DataConfig | null {
  const used = new Set<string>();
  const setting = (name: string) => {
    used.add(`PGRST_${name}`);
    return inDatabase.get(name.toLowerCase()) ?? environment[`PGRST_${name}`];
  };
  const text: Text = (name) =>
    setting(name)?.trim() || setting(formerNames[name] ?? name)?.trim() || undefined;
  const databaseUrl = contentOf('DB_URI', text('DB_URI') ?? '')
    .toString()
    .trim();
  if (!databaseUrl) return null;
  const ending = oneOf('DB_TX_END', text, endings);
  const openApiAddress = text('OPENAPI_SERVER_PROXY_URI');
  if (openApiAddress !== undefined && !(/^https?:/.test(openApiAddress) && URL.canParse(openApiAddress))) {
    throw new WrongSetting('PGRST_OPENAPI_SERVER_PROXY_URI is not a URL such as https://example.com/api.');
  }
  const preRequest = text('DB_PRE_REQUEST');
  const preConfig = text('DB_PRE_CONFIG');
  const rootFunction = text('DB_ROOT_SPEC');
  const hoisted = text('DB_HOISTED_TX_SETTINGS');
  const origins = text('SERVER_CORS_ALLOWED_ORIGINS');
  const schemas = listOf(text('DB_SCHEMAS') ?? 'public');
  const channel = isTrue('DB_CHANNEL_ENABLED', text, true) ? (text('DB_CHANNEL') ?? 'pgrst') : null;
  const host = hostOf(text('SERVER_HOST') ?? '127.0.0.1');
  const port = numberOf('SERVER_PORT', text('SERVER_PORT'), 3000);
  const config = {
    databaseUrl,
    host,
    port,
    socket: socketOf(text),
    admin: adminOf(text, host, port),
    poolSize: numberOf('DB_POOL', text('DB_POOL'), 10),
    poolTimeout: 1000 * numberOf('DB_POOL_ACQUISITION_TIMEOUT', text('DB_POOL_ACQUISITION_TIMEOUT'), 10),
    namesStatements: isTrue('DB_PREPARED_STATEMENTS', text, true),
    channel,
    inDatabase: isTrue('DB_CONFIG', text, true)
      ? { preConfig: preConfig === undefined ? null : functionNamed(preConfig) }
      : null,
    allowedOrigins: origins ? listOf(origins) : null,
    traceHeader: text('SERVER_TRACE_HEADER') ?? null,
    service: {
      schemas,
      limits: {
        maxBodyBytes: 10 * 1024 * 1024,
        maxRows: numberOf('DB_MAX_ROWS', text('DB_MAX_ROWS'), Number.POSITIVE_INFINITY),
      },
      allowsAnyRole: true,
      anonymousRole: text('DB_ANON_ROLE') ?? '',
      extraSearchPath: listOf(setting('DB_EXTRA_SEARCH_PATH') ?? 'public'),
      allowsAggregates: isTrue('DB_AGGREGATES_ENABLED', text),
      rollsBack: ending.startsWith('rollback'),
      allowsRollback: ending.endsWith('-allow-override'),
      appSettings: appSettingsOf(environment),
      allowsPlan: isTrue('DB_PLAN_ENABLED', text),
      openApiMode: oneOf('OPENAPI_MODE', text, openApiModes),
      openApiSecurity: isTrue('OPENAPI_SECURITY_ACTIVE', text),
      showsTiming: isTrue('SERVER_TIMING_ENABLED', text),
      schemaChannel: channel,
      ...(openApiAddress ? { openApiAddress } : {}),
      ...(rootFunction ? { rootFunction: functionNamed(rootFunction).name } : {}),
      ...(hoisted ? { hoistedSettings: listOf(hoisted) } : {}),
      ...(preRequest ? { preRequest: functionNamed(preRequest) } : {}),
    },
    tokens: {
      anonymousRole: text('DB_ANON_ROLE') ?? null,
      keys: keysOf(text),
      audience: audienceOf(text('JWT_AUD')),
      roleClaim: roleClaimOf(text('JWT_ROLE_CLAIM_KEY') ?? '.role'),
      maxCachedTokens: numberOf('JWT_CACHE_MAX_ENTRIES', text('JWT_CACHE_MAX_ENTRIES'), 1000),
    },
  };
  const isUnused = (name: string) => /^PGRST_(?!APP_SETTINGS_)/.test(name) && !used.has(name);
  return { ...config, unused: Object.keys(environment).filter(isUnused) };
}

const endings = ['commit', 'commit-allow-override', 'rollback', 'rollback-allow-override'] as const;
const openApiModes = ['follow-privileges', 'ignore-privileges', 'disabled'] as const;

/** Default: the first. */
function oneOf<Choice extends string>(name: string, text: Text, choices: readonly [Choice, ...Choice[]]) {
  const value = text(name);
  const choice = value === undefined ? choices[0] : choices.find((each) => each === value);
  if (choice === undefined) throw new WrongSetting(`PGRST_${name} takes ${choices.join(', ')}.`);
  return choice;
}

/** The value, or the content of the file that it names, without the last line break. */
function contentOf(name: string, value: string): Buffer {
  if (!value.startsWith('@')) return Buffer.from(value);
  try {
    const content = readFileSync(value.slice(1));
    return content.at(-1) === 10 ? content.subarray(0, -1) : content;
  } catch {
    throw new WrongSetting(`PGRST_${name} names a file that cannot be read: ${value.slice(1)}.`);
  }
}

/** A comma-separated list; a name with a comma or spaces around it is put in double quotes. */
function listOf(value: string): string[] {
  const names = value.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]+))\s*(?:,|$)/g);
  return Array.from(names, ([, quoted, bare]) => quoted?.replaceAll('""', '"') ?? bare?.trim() ?? '').filter(
    Boolean,
  );
}

/** A function; one without a schema is resolved by the search path. */
function functionNamed(value: string): { schema: string; name: string } {
  const dot = value.indexOf('.');
  return dot < 0 ? { schema: '', name: value } : { schema: value.slice(0, dot), name: value.slice(dot + 1) };
}

function appSettingsOf(environment: Environment): Record<string, string> {
  const settings = Object.entries(environment).flatMap(([name, value]): Array<[string, string]> => {
    const key = /^PGRST_APP_SETTINGS_(.+)$/.exec(name)?.[1];
    return key && value !== undefined ? [[`app.settings.${key.toLowerCase()}`, value]] : [];
  });
  return Object.fromEntries(settings);
}

// ── Where it listens ─────────────────────────────────────────────────────────────────────────────────────────────────

function hostOf(value: string): string {
  if (value === '*6' || value === '!6') return '::';
  return value === '*' || value === '*4' || value === '!4' ? '0.0.0.0' : value;
}

function socketOf(text: Text): DataConfig['socket'] {
  const mode = text('SERVER_UNIX_SOCKET_MODE') ?? '660';
  if (!/^[67][0-7]{2}$/.test(mode)) {
    throw new WrongSetting('PGRST_SERVER_UNIX_SOCKET_MODE is not a mode between 600 and 777.');
  }
  const path = text('SERVER_UNIX_SOCKET');
  return path === undefined ? null : { path, mode: Number.parseInt(mode, 8) };
}

function adminOf(text: Text, host: string, servicePort: number): DataConfig['admin'] {
  const portText = text('ADMIN_SERVER_PORT');
  if (portText === undefined) return null;
  const port = numberOf('ADMIN_SERVER_PORT', portText, 0);
  if (port === servicePort && port !== 0) {
    throw new WrongSetting('PGRST_ADMIN_SERVER_PORT cannot be the same as PGRST_SERVER_PORT.');
  }
  const ownHost = text('ADMIN_SERVER_HOST');
  return { host: ownHost === undefined ? host : hostOf(ownHost), port };
}

// ── Tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A secret, a JSON Web Key or a key set, recognised by the text itself. */
function keysOf(text: Text): readonly VerifyingKey[] | null {
  const secretText = text('JWT_SECRET');
  if (secretText === undefined) return null;
  const secret = contentOf('JWT_SECRET', secretText);
  const bytes = isTrue('JWT_SECRET_IS_BASE64', text) ? fromBase64(secret.toString()) : secret;
  const jwks = jwksIn(bytes.toString());
  if (jwks) return jwks;
  if (bytes.length < 32) throw new WrongSetting('PGRST_JWT_SECRET must be at least 32 characters long.');
  return [bytes];
}

function fromBase64(secret: string): Buffer {
  const text = secret.trim().replaceAll('_', '/').replaceAll('-', '+').replaceAll('.', '=');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw new WrongSetting('PGRST_JWT_SECRET is not base64.');
  return Buffer.from(text, 'base64');
}

function jwksIn(text: string): JWK[] | null {
  try {
    const value = JSON.parse(text);
    if (Array.isArray(value?.keys)) return value.keys;
    return typeof value?.kty === 'string' ? [value] : null;
  } catch {
    return null;
  }
}

function audienceOf(value: string | undefined): string | null {
  if (value?.includes(':') && (!URL.canParse(value) || /%(?![0-9a-f]{2})/i.test(value))) {
    throw new WrongSetting('PGRST_JWT_AUD must be a text or a valid URI.');
  }
  return value ?? null;
}

const claimStep =
  /\.(?:"([^"]*)"|([\p{L}\p{N}_$@]+))|\["([^"]*)"\]|\[(\d+)\]|\[\?\(@\s*(==\^|==|!=|\^==|\*==)\s*"([^"]*)"\)\]$/gu;

/** A path in PostgREST's former syntax (`."name"[0]`) or as a JSON path (RFC 9535: `$["name"][0]`). */
function roleClaimOf(given: string): ClaimStep[] {
  const value = given.replace(/^\$(?=[.[])/, '').replaceAll(/\['([^'"]*)'\]/g, '["$1"]');
  const found = [...value.matchAll(claimStep)];
  if (found.length === 0 || found.map(([step]) => step).join('') !== value) {
    throw new WrongSetting('PGRST_JWT_ROLE_CLAIM_KEY is not a path such as .role or ."https://example"[0].');
  }
  return found.map(([, quoted, bare, bracketed, index, operator, text]): ClaimStep => {
    if (operator !== undefined) return { operator: operator as '==', text: text ?? '' };
    return index === undefined ? { key: quoted ?? bare ?? bracketed ?? '' } : { index: Number(index) };
  });
}

// ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function isTrue(name: string, text: Text, otherwise = false): boolean {
  const value = text(name)?.toLowerCase().replaceAll('"', '');
  if (value === undefined) return otherwise;
  if (/^\d+$/.test(value)) return Number(value) > 0;
  if (value !== 'true' && value !== 'false') throw new WrongSetting(`PGRST_${name} takes true or false.`);
  return value === 'true';
}

function numberOf(name: string, value: string | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (!/^\d{1,9}$/.test(value)) throw new WrongSetting(`PGRST_${name} is not a whole number.`);
  return Number(value);
}
