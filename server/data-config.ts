// The settings of the data service by itself, under PostgREST's own names.
import type { DataServiceOptions } from '../backend/data/service.ts';
import type { TokenSettings } from './data-token.ts';
import { WrongSetting } from './wrong-setting.ts';

export interface DataConfig {
  /** postgres:// URL. */
  databaseUrl: string;
  host: string;
  port: number;
  /** Connections to the database. */
  poolSize: number;
  service: Omit<DataServiceOptions, 'database'>;
  tokens: TokenSettings;
  /** Origins whose pages may call it; null for all. */
  allowedOrigins: readonly string[] | null;
  /** A header of requests that answers repeat; null for none. */
  traceHeader: string | null;
}

type Text = (name: string) => string | undefined;

/**
 * Reads them.
 * @param environment variables such as `PGRST_DB_SCHEMAS`; blank ones count as not set
 * @returns null when `PGRST_DB_URI` is not set: the data service is not wanted by itself
 * @throws WrongSetting naming the first wrong one
 */
export function readDataConfig(environment: Readonly<Record<string, string | undefined>>): DataConfig | null {
  const text: Text = (name) => environment[`PGRST_${name}`]?.trim() || undefined;
  const databaseUrl = text('DB_URI');
  if (!databaseUrl) return null;
  const ending = text('DB_TX_END') ?? 'commit';
  if (!endings.has(ending)) throw new WrongSetting(`PGRST_DB_TX_END takes ${[...endings].join(', ')}.`);
  const openApiMode = text('OPENAPI_MODE') ?? 'follow-privileges';
  if (!isOpenApiMode(openApiMode)) {
    throw new WrongSetting(`PGRST_OPENAPI_MODE takes ${openApiModes.join(', ')}.`);
  }
  const openApiAddress = text('OPENAPI_SERVER_PROXY_URI');
  if (openApiAddress !== undefined && !(/^https?:/.test(openApiAddress) && URL.canParse(openApiAddress))) {
    throw new WrongSetting('PGRST_OPENAPI_SERVER_PROXY_URI is no address such as https://example.com/api.');
  }
  const preRequest = text('DB_PRE_REQUEST');
  const rootFunction = text('DB_ROOT_SPEC');
  const hoisted = text('DB_HOISTED_TX_SETTINGS');
  const origins = text('SERVER_CORS_ALLOWED_ORIGINS');
  const schemas = listOf(text('DB_SCHEMAS') ?? text('DB_SCHEMA') ?? 'public');
  const appSettings = Object.entries(environment).flatMap(([name, value]): Array<[string, string]> => {
    const key = /^PGRST_APP_SETTINGS_(.+)$/.exec(name)?.[1];
    return key && value !== undefined ? [[`app.settings.${key.toLowerCase()}`, value]] : [];
  });
  return {
    databaseUrl,
    host: text('SERVER_HOST') ?? '127.0.0.1',
    port: numberOf('SERVER_PORT', text('SERVER_PORT'), 3000),
    poolSize: numberOf('DB_POOL', text('DB_POOL'), 10),
    allowedOrigins: origins ? listOf(origins) : null,
    traceHeader: text('SERVER_TRACE_HEADER') ?? null,
    service: {
      schemas,
      maxRows: numberOf('DB_MAX_ROWS', text('DB_MAX_ROWS'), Number.POSITIVE_INFINITY),
      maxBodyBytes: 10 * 1024 * 1024,
      allowsAnyRole: true,
      anonymousRole: text('DB_ANON_ROLE') ?? '',
      extraSearchPath: listOf(text('DB_EXTRA_SEARCH_PATH') ?? 'public'),
      allowsAggregates: isTrue('DB_AGGREGATES_ENABLED', text),
      rollsBack: ending.startsWith('rollback'),
      allowsRollback: ending.endsWith('-allow-override'),
      appSettings: Object.fromEntries(appSettings),
      allowsPlan: isTrue('DB_PLAN_ENABLED', text),
      openApiMode,
      openApiSecurity: isTrue('OPENAPI_SECURITY_ACTIVE', text),
      tellsTiming: isTrue('SERVER_TIMING_ENABLED', text),
      ...(openApiAddress ? { openApiAddress } : {}),
      ...(rootFunction ? { rootFunction } : {}),
      ...(hoisted ? { hoistedSettings: listOf(hoisted) } : {}),
      ...(preRequest ? { preRequest: functionNamed(preRequest, schemas[0] ?? 'public') } : {}),
    },
    tokens: {
      anonymousRole: text('DB_ANON_ROLE') ?? null,
      secret: text('JWT_SECRET') ?? null,
      isSecretBase64: isTrue('JWT_SECRET_IS_BASE64', text),
      audience: text('JWT_AUD') ?? null,
      roleClaim: roleClaimOf(text('JWT_ROLE_CLAIM_KEY') ?? '.role'),
    },
  };
}

const endings = new Set(['commit', 'commit-allow-override', 'rollback', 'rollback-allow-override']);

const openApiModes = ['follow-privileges', 'ignore-privileges', 'disabled'] as const;
const isOpenApiMode = (value: string): value is (typeof openApiModes)[number] =>
  (openApiModes as readonly string[]).includes(value);

/** A comma-separated list; a name with a comma or spaces around it is put in double quotes. */
function listOf(value: string): string[] {
  const names = value.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]+))\s*(?:,|$)/g);
  return Array.from(names, ([, quoted, bare]) => quoted?.replaceAll('""', '"') ?? bare?.trim() ?? '').filter(
    Boolean,
  );
}

function functionNamed(value: string, schema: string): { schema: string; name: string } {
  const dot = value.indexOf('.');
  return dot < 0 ? { schema, name: value } : { schema: value.slice(0, dot), name: value.slice(dot + 1) };
}

function roleClaimOf(value: string): string[] {
  const steps = Array.from(value.matchAll(/\.(?:"([^"]+)"|([\w-]+))|\[(\d+)\]/g), (step) => step);
  if (steps.length === 0 || steps.map(([step]) => step).join('') !== value) {
    throw new WrongSetting('PGRST_JWT_ROLE_CLAIM_KEY is no path such as .role or ."https://example"[0].');
  }
  return steps.map(([, quoted, bare, index]) => quoted ?? bare ?? index ?? '');
}

function isTrue(name: string, text: Text): boolean {
  const value = (text(name) ?? 'false').toLowerCase();
  if (value !== 'true' && value !== 'false') throw new WrongSetting(`PGRST_${name} takes true or false.`);
  return value === 'true';
}

function numberOf(name: string, value: string | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (!/^\d{1,9}$/.test(value)) throw new WrongSetting(`PGRST_${name} is not a whole number.`);
  return Number(value);
}
