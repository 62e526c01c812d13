// Settings of the services, with or without the shop.

import { type GivenAuthSettings, WrongSetting } from '@jani-juice/backend/settings';
import type { JWK } from 'jose';

export interface BackendConfig {
  /** Overrides of `packages/backend/auth/settings.ts`. */
  authSettings: Partial<GivenAuthSettings>;
  /** Keys that sign and verify access tokens, instead of those created on the first start. */
  signingKeys: readonly JWK[] | undefined;
  /** A secret shared with other systems that sign or verify tokens (HS256). */
  sharedSecret: string | undefined;
  /** Further origins that may call the services from a browser. */
  allowedOrigins: readonly string[];
}

/**
 * Reads the settings.
 * @param text returns a variable's value; undefined when it is not set
 * @throws WrongSetting naming the first wrong one
 */
export function readBackendConfig(text: (name: string) => string | undefined): BackendConfig {
  const settings = readJson('AUTH_SETTINGS', text('AUTH_SETTINGS')) ?? {};
  if (typeof settings !== 'object' || Array.isArray(settings)) {
    throw new WrongSetting('AUTH_SETTINGS is not a JSON object.');
  }
  const keys = readJson('JWT_KEYS', text('JWT_KEYS'));
  if (keys !== undefined && !(Array.isArray(keys) && keys.length > 0 && keys.every(isSigningKey))) {
    throw new WrongSetting(
      'JWT_KEYS is not a JSON array of private JWKs, each with "kid" and with "alg" ES256 or RS256.',
    );
  }
  const sharedSecret = text('JWT_SECRET');
  if (sharedSecret !== undefined && sharedSecret.length < 32) {
    throw new WrongSetting('JWT_SECRET is shorter than 32 characters: it could be guessed.');
  }
  const allowedOrigins = (text('ALLOWED_ORIGINS') ?? '').split(',').map((origin) => origin.trim());
  return {
    authSettings: settings as Partial<GivenAuthSettings>,
    signingKeys: keys as JWK[] | undefined,
    sharedSecret,
    allowedOrigins: allowedOrigins.filter(Boolean),
  };
}

function readJson(name: string, value: string | undefined): unknown {
  if (value === undefined) return undefined;
  try {
    return JSON.parse(value);
  } catch {
    // The value may hold secrets: it is not repeated.
    throw new WrongSetting(`${name} is not JSON.`);
  }
}

function isSigningKey(key: unknown): boolean {
  if (typeof key !== 'object' || key === null) return false;
  const { kid, d, alg } = key as JWK;
  return typeof kid === 'string' && typeof d === 'string' && (alg === 'ES256' || alg === 'RS256');
}
