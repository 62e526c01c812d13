// The audit log: actions on accounts, with their actor.
import type { Session } from '../database/database.ts';
import { type AuthContext, type AuthRequest, at } from './context.ts';
import type { UserRow } from './rows.ts';

export type AuditAction =
  | 'login'
  | 'logout'
  | 'user_signedup'
  | 'user_invited'
  | 'user_deleted'
  | 'user_modified'
  | 'user_recovery_requested'
  | 'user_reauthenticate_requested'
  | 'user_confirmation_requested'
  | 'user_updated_password'
  | 'token_revoked'
  | 'generate_recovery_codes'
  | 'factor_in_progress'
  | 'factor_unenrolled'
  | 'challenge_created'
  | 'verification_attempted'
  | 'factor_deleted'
  | 'factor_updated'
  | 'mfa_code_login'
  | 'identity_unlinked'
  | 'identity_linked'
  | 'passkey_created'
  | 'passkey_updated'
  | 'passkey_deleted';

/** Adds an entry in the transaction of the action. */
export async function audit(
  tx: Session,
  context: Pick<AuthContext, 'now'>,
  action: AuditAction,
  actor: Pick<UserRow, 'id' | 'email' | 'phone'> | null,
  request: Pick<AuthRequest, 'ip'>,
  traits: Record<string, unknown> = {},
): Promise<void> {
  await tx.query(
    `insert into auth.audit_log_entries (payload, created_at, ip_address)
     values ($1::jsonb, $2::timestamptz, $3)`,
    [
      {
        action,
        actor_id: actor?.id ?? '00000000-0000-0000-0000-000000000000',
        actor_username: actor?.email ?? actor?.phone ?? 'service_role',
        timestamp: at(context),
        traits,
      },
      at(context),
      request.ip ?? '',
    ],
  );
}
