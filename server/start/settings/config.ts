// The settings, read once at the start. An invalid one stops the start with one sentence.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { WrongSetting } from '@jani-juice/backend/settings';
import { isEmail } from '../../../domain/people/email.ts';
import { msisdn, normalisePhone } from '../../../domain/people/phone.ts';
import type { MessagesConfig } from '../../messages/messages.ts';
import { type BackendConfig, readBackendConfig } from './backend-config.ts';

export interface Config {
  port: number;
  host: string;
  publicUrl: string;
  dataDir: string;
  databaseUrl: string | null;
  /** Direct connection string, where `databaseUrl` uses a pooler in transaction mode. */
  databaseListenUrl: string | null;
  /** Maximum database connections per process, besides the one for notifications. */
  databasePool: number;
  /** Whether this process makes backups. */
  makesBackups: boolean;
  /** A hosted project instead of the built-in services. */
  supabase: { url: string; publishableKey: string; secretKey: string } | null;
  /** Configured keys for the built-in services. */
  configuredKeys: { publishable: string | undefined; secret: string | undefined };
  /** Settings of the built-in services themselves. */
  backend: BackendConfig;
  seed: 'demo' | 'none';
  /** The first staff account; a random password when there is none. */
  firstAdmin: { email: string; password: string | null; isChosen: boolean };
  messages: MessagesConfig;
  /** Number of proxies in front of the shop that append to X-Forwarded-For. */
  trustedProxies: number;
  /** An S3-compatible store for uploaded files, instead of a folder in `dataDir`. */
  s3: {
    endpoint: string;
    bucket: string;
    accessKey: string;
    secretKey: string;
    region: string;
  } | null;
  mpesa: MpesaConfig | HostedMpesa;
  /** Maximum status queries of prompts per minute that M-PESA accepts from this merchant. */
  mpesaQueriesPerMinute: number;
  /** Page views: counted by Plausible at `url`, or by the shop itself when it is null. `domain` is the site's name in Plausible. */
  analytics: { url: string | null; domain: string };
}

/** With a hosted project, the account is in the secrets of the payment function. */
interface HostedMpesa {
  environment: 'sandbox' | 'production';
  isHosted: true;
}

type MpesaConfig = {
  /** The account that receives payments: a paybill or a till. */
  transactionType: 'CustomerPayBillOnline' | 'CustomerBuyGoodsOnline';
} & (
  | { environment: 'simulator'; port: number }
  | {
      environment: 'sandbox' | 'production';
      consumerKey: string;
      consumerSecret: string;
      shortcode: string;
      passkey: string;
      /** Number of the till (transaction type CustomerBuyGoodsOnline). */
      till: string | undefined;
      /** Initiator of reversals. */
      initiator: { name: string; password: string; certificate: string } | null;
      /** The phone that the shortcode is registered with at M-PESA (254…), for its statement. */
      nominatedNumber: string | undefined;
    }
);

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the settings.
 * @param environment variables; blank ones count as not set
 * @param root the project's folder, base of relative paths
 * @throws WrongSetting naming the first wrong one
 */
export function readConfig(environment: Environment, root: string): Config {
  const text = (name: string): string | undefined => environment[name]?.trim() || undefined;
  const port = readPort('PORT', text('PORT'), 3000);
  const host = text('HOST') ?? '127.0.0.1';
  // M-PESA refuses addresses in mixed case.
  const publicUrl =
    readUrl(
      'PUBLIC_URL',
      text('PUBLIC_URL')?.replace(/^[^/]*\/\/[^/]*/, (origin) => origin.toLowerCase()),
      ['http:', 'https:'],
    ) ?? `http://localhost:${port}`;
  const { origin, pathname } = new URL(publicUrl);
  if (pathname !== '/') {
    throw new WrongSetting(
      `PUBLIC_URL has a path (${pathname}), but the shop is at the root of its host: ${origin}.`,
    );
  }
  const dataDir = resolve(root, text('DATA_DIR') ?? 'data');
  const supabase = readSupabase(text);
  const mpesa = supabase ? readHostedMpesa(text, supabase.url, port, root) : readMpesa(text, port, root);
  if (mpesa.environment !== 'simulator') {
    if (supabase) checkCallbackHost('SUPABASE_URL', supabase.url, mpesa.environment);
    else checkCallbackHost('PUBLIC_URL', publicUrl, mpesa.environment);
  }
  return {
    port,
    host,
    publicUrl,
    dataDir,
    databaseUrl: readUrl('DATABASE_URL', text('DATABASE_URL'), ['postgres:', 'postgresql:']),
    databaseListenUrl: readUrl('DATABASE_LISTEN_URL', text('DATABASE_LISTEN_URL'), [
      'postgres:',
      'postgresql:',
    ]),
    databasePool: readNumber('DATABASE_POOL', text('DATABASE_POOL') ?? '16', 1, 500),
    makesBackups: readChoice('BACKUPS', text('BACKUPS') ?? 'on', ['on', 'off']) === 'on',
    supabase,
    configuredKeys: { publishable: text('SUPABASE_PUBLISHABLE_KEY'), secret: text('SUPABASE_SECRET_KEY') },
    backend: readBackendConfig(text),
    seed: readChoice('SEED', text('SEED') ?? 'demo', ['demo', 'none']),
    firstAdmin: readFirstAdmin(text),
    messages: {
      smtpUrl: readUrl('SMTP_URL', text('SMTP_URL'), ['smtp:', 'smtps:']),
      mailFrom: text('MAIL_FROM') ?? `Jani Juice <no-reply@${new URL(publicUrl).hostname}>`,
      sms: readSms(text),
      outbox: resolve(dataDir, 'outbox'),
      outboxDays: readNumber('OUTBOX_DAYS', text('OUTBOX_DAYS') ?? '30', 1, 3650),
    },
    s3: readS3(text),
    trustedProxies: readNumber('TRUSTED_PROXIES', text('TRUSTED_PROXIES') ?? '0', 0, 10),
    mpesa,
    mpesaQueriesPerMinute: readNumber(
      'MPESA_QUERIES_PER_MINUTE',
      text('MPESA_QUERIES_PER_MINUTE') ?? '5',
      1,
      6000,
    ),
    analytics: {
      url: readUrl('ANALYTICS_URL', text('ANALYTICS_URL'), ['http:', 'https:']),
      domain: text('ANALYTICS_DOMAIN') ?? new URL(publicUrl).hostname,
    },
  };
}

function readSupabase(text: (name: string) => string | undefined): Config['supabase'] {
  const url = readUrl('SUPABASE_URL', text('SUPABASE_URL'), ['http:', 'https:']);
  if (!url) return null;
  const [publishableKey, secretKey] = [text('SUPABASE_PUBLISHABLE_KEY'), text('SUPABASE_SECRET_KEY')];
  if (!publishableKey || !secretKey) {
    throw new WrongSetting(
      'With SUPABASE_URL, SUPABASE_PUBLISHABLE_KEY and SUPABASE_SECRET_KEY must be set too.',
    );
  }
  return { url, publishableKey, secretKey };
}

function readFirstAdmin(text: (name: string) => string | undefined): Config['firstAdmin'] {
  const email = text('ADMIN_EMAIL') ?? 'admin@jani.example';
  if (!isEmail(email)) {
    throw new WrongSetting(`ADMIN_EMAIL is "${email}", but must be an email address.`);
  }
  const password = text('ADMIN_PASSWORD') ?? null;
  const bytes = Buffer.byteLength(password ?? '');
  if (password !== null && (password.length < 8 || bytes > 72)) {
    throw new WrongSetting('ADMIN_PASSWORD takes 8 to 72 characters.');
  }
  return { email, password, isChosen: text('ADMIN_EMAIL') !== undefined };
}

function readSms(text: (name: string) => string | undefined): MessagesConfig['sms'] {
  const [username, apiKey, sender] = [text('SMS_USERNAME'), text('SMS_API_KEY'), text('SMS_SENDER')];
  if (!username && !apiKey) return null;
  if (!username || !apiKey) {
    throw new WrongSetting('SMS_USERNAME and SMS_API_KEY must be set together.');
  }
  return { username, apiKey, sender };
}

function readS3(text: (name: string) => string | undefined): Config['s3'] {
  const endpoint = readUrl('S3_ENDPOINT', text('S3_ENDPOINT'), ['http:', 'https:']);
  if (!endpoint) return null;
  const [bucket, accessKey, secretKey] = [text('S3_BUCKET'), text('S3_ACCESS_KEY'), text('S3_SECRET_KEY')];
  if (!bucket || !accessKey || !secretKey) {
    throw new WrongSetting('With S3_ENDPOINT, S3_BUCKET, S3_ACCESS_KEY and S3_SECRET_KEY must be set too.');
  }
  return { endpoint, bucket, accessKey, secretKey, region: text('S3_REGION') ?? 'us-east-1' };
}

/** A hosted shop requires MPESA_ENV: a default of `simulator` would let customers order without paying. */
function readHostedMpesa(
  text: (name: string) => string | undefined,
  supabaseUrl: string,
  port: number,
  root: string,
): MpesaConfig | HostedMpesa {
  const environment = text('MPESA_ENV');
  if (!environment) {
    throw new WrongSetting(
      "With SUPABASE_URL, MPESA_ENV must be set: sandbox or production, as in the payment function's secrets.",
    );
  }
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(new URL(supabaseUrl).hostname);
  if (environment === 'simulator' && !isLocal) {
    throw new WrongSetting(
      'MPESA_ENV=simulator does not work with a hosted project, whose payment function cannot reach the simulator on this machine: practise with MPESA_ENV=sandbox, or in a shop without SUPABASE_URL.',
    );
  }
  return environment === 'sandbox' || environment === 'production'
    ? { environment, isHosted: true }
    : readMpesa(text, port, root);
}

/** As in `scripts/simulator.mjs`. */
const sharedSimulatorPort = 4010;

function readMpesa(text: (name: string) => string | undefined, port: number, root: string): MpesaConfig {
  const environment = readChoice('MPESA_ENV', text('MPESA_ENV') ?? 'simulator', [
    'simulator',
    'sandbox',
    'production',
  ]);
  const readType = (value: string) =>
    readChoice('MPESA_TRANSACTION_TYPE', value, ['CustomerPayBillOnline', 'CustomerBuyGoodsOnline']);
  if (environment === 'simulator') {
    // Several processes share one simulator, and their own ports follow each other.
    const next = text('DATABASE_URL') ? sharedSimulatorPort : port === 65_535 ? port - 1 : port + 1;
    return {
      environment,
      port: readPort('SIMULATOR_PORT', text('SIMULATOR_PORT'), port === 0 ? 0 : next),
      transactionType: readType(text('MPESA_TRANSACTION_TYPE') ?? 'CustomerPayBillOnline'),
    };
  }
  // Whitespace is a copying error, which M-PESA would answer with an empty page.
  const required = (name: string): string => {
    const value = text(name);
    if (!value) throw new WrongSetting(`With MPESA_ENV=${environment}, ${name} must be set.`);
    if (/\s/.test(value)) throw new WrongSetting(`${name} has a space or a line break in it.`);
    return value;
  };
  const consumerKey = required('MPESA_CONSUMER_KEY');
  const consumerSecret = required('MPESA_CONSUMER_SECRET');
  const shortcode = readDigits('MPESA_SHORTCODE', required('MPESA_SHORTCODE'), 5, 7);
  const passkey = required('MPESA_PASSKEY');
  if (environment === 'production' && (shortcode === sandbox.shortcode || passkey === sandbox.passkey)) {
    const name = shortcode === sandbox.shortcode ? 'MPESA_SHORTCODE' : 'MPESA_PASSKEY';
    throw new WrongSetting(`${name} is the sandbox's, but MPESA_ENV is production.`);
  }
  const transactionType = readType(required('MPESA_TRANSACTION_TYPE'));
  return {
    environment,
    consumerKey,
    consumerSecret,
    shortcode,
    passkey,
    transactionType,
    till: readTill(text, environment, transactionType),
    initiator: readInitiator(text, root),
    nominatedNumber: readNominatedNumber(text('MPESA_NOMINATED_NUMBER')),
  };
}

/** The portal's public test credentials. */
const sandbox = {
  shortcode: '174379',
  passkey: 'bfb279f9aa9bdbcf158e97dd71a467cd2e0c893059b10f78e6b72ada1ed2c919',
};

function readTill(
  text: (name: string) => string | undefined,
  environment: string,
  transactionType: MpesaConfig['transactionType'],
): string | undefined {
  const till = text('MPESA_TILL');
  if (transactionType === 'CustomerPayBillOnline') {
    if (till) {
      throw new WrongSetting(
        'MPESA_TILL goes with MPESA_TRANSACTION_TYPE=CustomerBuyGoodsOnline; a paybill has MPESA_SHORTCODE only.',
      );
    }
    return undefined;
  }
  // The sandbox has no till; its shortcode is used instead.
  if (!till && environment === 'production') {
    throw new WrongSetting(
      "With MPESA_TRANSACTION_TYPE=CustomerBuyGoodsOnline, MPESA_TILL must be the till's number; MPESA_SHORTCODE is its store number.",
    );
  }
  return till === undefined ? undefined : readDigits('MPESA_TILL', till, 5, 10);
}

function readInitiator(
  text: (name: string) => string | undefined,
  root: string,
): { name: string; password: string; certificate: string } | null {
  const name = text('MPESA_INITIATOR_NAME');
  const password = text('MPESA_INITIATOR_PASSWORD');
  const path = text('MPESA_CERTIFICATE');
  if (!name && !password && !path) return null;
  if (!name || !password || !path) {
    throw new WrongSetting(
      'MPESA_INITIATOR_NAME, MPESA_INITIATOR_PASSWORD and MPESA_CERTIFICATE must be set together.',
    );
  }
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(readFileSync(resolve(root, path)));
  } catch {
    throw new WrongSetting(`MPESA_CERTIFICATE is "${path}", but no certificate can be read there.`);
  }
  if (certificate.publicKey.asymmetricKeyType !== 'rsa') {
    throw new WrongSetting(
      `MPESA_CERTIFICATE is "${path}", but that is not the certificate of M-PESA's portal.`,
    );
  }
  return { name, password, certificate: certificate.toString() };
}

function readNominatedNumber(value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  const phone = normalisePhone(value);
  if (!phone) {
    throw new WrongSetting(`MPESA_NOMINATED_NUMBER is "${value}", but it takes a Kenyan mobile number.`);
  }
  return msisdn(phone);
}

/** M-PESA refuses every prompt with an invalid callback URL, so it is checked at the start. */
function checkCallbackHost(name: string, url: string, environment: string): void {
  const { protocol, hostname } = new URL(url);
  const isPrivate =
    !hostname.includes('.') ||
    /\.(local|localhost|internal|test)$/.test(hostname) ||
    /^(127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\./.test(hostname);
  if (protocol !== 'https:' || isPrivate) {
    throw new WrongSetting(
      `With MPESA_ENV=${environment}, ${name} must be the https:// address at which M-PESA reaches the shop.`,
    );
  }
  const forbidden = ['mpesa', 'm-pesa', 'safaricom', 'exe', 'cmd', 'sql', 'query'].find((word) =>
    url.toLowerCase().includes(word),
  );
  if (forbidden) {
    throw new WrongSetting(
      `${name} contains "${forbidden}", and M-PESA refuses callback URLs with this word.`,
    );
  }
}

function readDigits(name: string, value: string, least: number, most: number): string {
  if (!/^\d+$/.test(value) || value.length < least || value.length > most) {
    throw new WrongSetting(`${name} is "${value}", but it takes ${least} to ${most} digits.`);
  }
  return value;
}

function readPort(name: string, value: string | undefined, fallback: number): number {
  return value === undefined ? fallback : readNumber(name, value, 0, 65_535);
}

function readNumber(name: string, value: string, least: number, most: number): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < least || number > most) {
    throw new WrongSetting(`${name} is "${value}", but it takes a whole number from ${least} to ${most}.`);
  }
  return number;
}

function readChoice<Choice extends string>(name: string, value: string, choices: readonly Choice[]): Choice {
  const choice = choices.find((known) => known === value);
  if (!choice) throw new WrongSetting(`${name} is "${value}", but it takes ${choices.join(' or ')}.`);
  return choice;
}

function readUrl(name: string, value: string | undefined, protocols: readonly string[]): string | null {
  if (value === undefined) return null;
  if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) {
    // The value may hold a password: it is not repeated.
    throw new WrongSetting(
      `${name} is not a URL that begins with ${protocols.map((p) => `${p}//`).join(' or ')}.`,
    );
  }
  return value.replace(/\/+$/, '');
}
