// Issues access tokens. Only the newest one is valid, for an hour.
import { randomInt, timingSafeEqual } from 'node:crypto';
import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { SimulatorSettings } from '../settings.ts';
import {
  type DarajaError,
  errorResponse,
  invalidAccessToken,
  invalidAuthenticationHeader,
} from './daraja-errors.ts';

const LIFETIME_S = 3599;
const ALPHANUMERICS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

export type Tokens = {
  /** The answer of GET /oauth/v1/generate. */
  generate(authorization: string | undefined, grantType: string | undefined): Promise<Response>;
  /** The error for an invalid Authorization header; null when it is valid. */
  refuse(authorization: string | undefined): DarajaError | null;
  /** As if another client requested a token: only the newest one is valid. */
  invalidate(): void;
  reset(): void;
};

export function issueTokens(settings: SimulatorSettings, clock: SimulatorClock, ledger: Ledger): Tokens {
  let current: { token: string; expiresAt: number } | null = null;
  const ownCredentials = `${settings.consumerKey}:${settings.consumerSecret}`;

  return {
    async generate(authorization, grantType) {
      const basic = /^Basic\s+(\S+)$/i.exec(authorization ?? '')?.[1];
      if (basic === undefined) {
        return errorResponse({
          status: 400,
          errorCode: '400.008.01',
          errorMessage: 'Invalid Authentication passed',
        });
      }
      if (grantType !== 'client_credentials') {
        return errorResponse({
          status: 400,
          errorCode: '400.008.02',
          errorMessage: 'Invalid grant type passed',
        });
      }
      // As in production: wrong credentials get a response without a body.
      if (!isSame(Buffer.from(basic, 'base64').toString('utf8'), ownCredentials)) {
        return new Response(null, { status: 400 });
      }
      const at = clock.now();
      const token = { token: drawToken(), expiresAt: at + LIFETIME_S * 1000 };
      current = token;
      await ledger.write({ kind: 'token made', at, expiresAt: token.expiresAt });
      return Response.json({ access_token: token.token, expires_in: String(LIFETIME_S) });
    },
    refuse(authorization) {
      const bearer = /^Bearer\s+(\S+)$/i.exec(authorization ?? '')?.[1];
      if (bearer === undefined) return invalidAuthenticationHeader;
      const isValid = current !== null && isSame(bearer, current.token) && clock.now() < current.expiresAt;
      return isValid ? null : invalidAccessToken;
    },
    invalidate() {
      current = null;
    },
    reset() {
      current = null;
    },
  };
}

function drawToken(): string {
  return Array.from({ length: 28 }, () => ALPHANUMERICS.charAt(randomInt(ALPHANUMERICS.length))).join('');
}

function isSame(actual: string, expected: string): boolean {
  const left = Buffer.from(actual);
  const right = Buffer.from(expected);
  return left.length === right.length && timingSafeEqual(left, right);
}
