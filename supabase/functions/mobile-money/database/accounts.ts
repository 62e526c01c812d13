// Accounts of staff, created through the auth service's admin API with the secret key.
import { parseObject } from '../request-body.ts';
import type { DatabaseSettings } from '../settings.ts';

const TIMEOUT_MS = 15_000;

interface Invitation {
  email: string;
  /** `mail`: the service sends the link. `link`: it returns the link's token. */
  way: 'mail' | 'link';
  /** Where the link of the email leads. */
  returnTo: string;
}

export interface AccountStore {
  /**
   * Creates the account of an address, unless it was invited before, and a new link for it.
   * @returns `problem`: the service's code of a refusal
   */
  invite(
    invitation: Invitation,
  ): Promise<{ userId: string; tokenHash: string } | { status: number; problem: string }>;
}

export function openAccountStore({ url, secretKey, fetch: send = fetch }: DatabaseSettings): AccountStore {
  return {
    async invite({ email, way, returnTo }) {
      const query = returnTo ? `?${new URLSearchParams({ redirect_to: returnTo })}` : '';
      const response = await send(
        `${url}/auth/v1/${way === 'link' ? 'admin/generate_link' : 'invite'}${query}`,
        {
          method: 'POST',
          headers: {
            apikey: secretKey,
            authorization: `Bearer ${secretKey}`,
            'content-type': 'application/json',
          },
          body: JSON.stringify({ email, ...(way === 'link' ? { type: 'invite' } : {}) }),
          signal: AbortSignal.timeout(TIMEOUT_MS),
        },
      );
      const answer = parseObject(await response.text());
      return response.ok && typeof answer?.id === 'string'
        ? {
            userId: answer.id,
            tokenHash: typeof answer.hashed_token === 'string' ? answer.hashed_token : '',
          }
        : { status: response.status, problem: String(answer?.error_code ?? answer?.msg ?? '') };
    },
  };
}
