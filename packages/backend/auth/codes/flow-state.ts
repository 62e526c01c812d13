// Proof Key for Code Exchange (RFC 7636): a flow starts here and ends when the same client exchanges its code.
import { createHash, randomUUID } from 'node:crypto';
import type { Session } from '../../database/database.ts';
import { invalid } from '../auth-error.ts';
import { type AuthContext, at, type Fields } from '../context.ts';
import { text } from '../requests/fields.ts';
import type { Json } from '../rows.ts';

export interface Pkce {
  challenge: string;
  method: 's256' | 'plain';
}

export interface FlowStateRow {
  id: string;
  user_id: string | null;
  auth_code: string | null;
  code_challenge: string | null;
  code_challenge_method: 's256' | 'plain' | null;
  provider_type: string;
  provider_access_token: string | null;
  provider_refresh_token: string | null;
  authentication_method: string;
  auth_code_issued_at: string | null;
  invite_token: string | null;
  referrer: string | null;
  linking_target_id: string | null;
  email_optional: boolean;
  client_state: Json | null;
  used_at: string | null;
  created_at: string;
}

const columns = `id, user_id, auth_code, code_challenge, code_challenge_method, provider_type, provider_access_token,
  provider_refresh_token, authentication_method, auth_code_issued_at, invite_token, referrer, linking_target_id,
  email_optional, client_state, used_at, created_at`;

/**
 * Reads `code_challenge` and `code_challenge_method` from a body or a query.
 * @returns null when neither is there
 * @throws AuthError validation_failed for one without the other, or invalid values
 */
export function readPkce(fields: Fields): Pkce | null {
  const [challenge, method] = [text(fields, 'code_challenge'), text(fields, 'code_challenge_method')];
  if (!challenge && !method) return null;
  if (!challenge || !method) {
    throw invalid('PKCE flow requires code_challenge_method and code_challenge');
  }
  if (challenge.length < 43 || challenge.length > 128) {
    throw invalid('code challenge has to be between 43 and 128 characters');
  }
  if (!/^[A-Za-z0-9\-._~]+$/.test(challenge)) {
    throw invalid(
      'code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes',
    );
  }
  const lowerCase = method.toLowerCase();
  if (lowerCase !== 's256' && lowerCase !== 'plain') throw invalid('Invalid code_challenge_method');
  return { challenge, method: lowerCase };
}

/** Starts a flow. @returns its id, which may be public as `state` */
export async function startFlow(
  tx: Session,
  context: AuthContext,
  flow: {
    /** `email`, `phone`, `sso/saml` or the provider's name. */
    providerType: string;
    /** Authentication method for the session's `amr`. */
    method: string;
    pkce: Pkce | null;
    userId?: string | null;
    referrer?: string | null;
    inviteToken?: string | null;
    linkingTargetId?: string | null;
    clientState?: Json | null;
  },
): Promise<string> {
  const id = randomUUID();
  await tx.query(
    `insert into auth.flow_state (id, provider_type, authentication_method, code_challenge, code_challenge_method,
       user_id, referrer, invite_token, linking_target_id, client_state, created_at, updated_at)
     values ($1::uuid, $2, $3, $4, $5::auth.code_challenge_method, $6::uuid, $7, $8, $9::uuid, $10::jsonb,
       $11::timestamptz, $11::timestamptz)`,
    [
      id,
      flow.providerType,
      flow.method,
      flow.pkce?.challenge ?? null,
      flow.pkce?.method ?? null,
      flow.userId ?? null,
      flow.referrer ?? null,
      flow.inviteToken ?? null,
      flow.linkingTargetId ?? null,
      flow.clientState ?? null,
      at(context),
    ],
  );
  return id;
}

/** Finds a flow by its id or by its code; locked until the transaction ends. */
export async function findFlow(
  tx: Session,
  by: { id: string } | { authCode: string },
): Promise<FlowStateRow | null> {
  const [condition, value] =
    'id' in by ? ['id = $1::uuid', by.id] : ['auth_code = $1', hashAuthCode(by.authCode)];
  const { rows } = await tx.query<FlowStateRow>(
    `select ${columns} from auth.flow_state where ${condition} for update`,
    [value],
  );
  return rows[0] ?? null;
}

/** Completes the first half of a flow: the user is known. @returns the code that the client exchanges for tokens, once */
export async function issueAuthCode(
  tx: Session,
  context: AuthContext,
  flowId: string,
  found: { userId: string; providerAccessToken?: string | null; providerRefreshToken?: string | null },
): Promise<string> {
  const code = randomUUID();
  await tx.query(
    `update auth.flow_state set auth_code = $2, user_id = $3::uuid, provider_access_token = $4,
       provider_refresh_token = $5, auth_code_issued_at = $6::timestamptz, updated_at = $6::timestamptz,
       used_at = $6::timestamptz
     where id = $1::uuid`,
    [
      flowId,
      hashAuthCode(code),
      found.userId,
      found.providerAccessToken ?? null,
      found.providerRefreshToken ?? null,
      at(context),
    ],
  );
  return code;
}

/** Whether a verifier belongs to a flow's challenge. */
export function isVerifierOf(flow: FlowStateRow, verifier: string): boolean {
  const challenge =
    flow.code_challenge_method === 's256'
      ? createHash('sha256').update(verifier).digest('base64url')
      : verifier;
  return flow.code_challenge !== null && challenge === flow.code_challenge;
}

/** Deletes a flow whose code was exchanged. */
export async function endFlow(tx: Session, id: string): Promise<void> {
  await tx.query('delete from auth.flow_state where id = $1::uuid', [id]);
}

const hashAuthCode = (code: string) => createHash('sha256').update(code).digest('hex');
