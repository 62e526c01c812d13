// Ends a session together with the one at the company's identity provider.
import { decodeJwt } from 'jose';
import type { Session } from '../../../database/database.ts';
import type { TokenResponse } from '../../sessions/sessions.ts';

/** Ends a session just started at a moment (RFC 3339), if one is given. */
export async function limitSessionTo(tx: Session, tokens: TokenResponse, end: unknown): Promise<void> {
  if (typeof end !== 'string') return;
  const { session_id: id } = decodeJwt(tokens.access_token);
  await tx.query('update auth.sessions set not_after = $2::timestamptz where id = $1::uuid', [id, end]);
}
