// Authorization of private topics: queries the policies of realtime.messages with rows that are never committed.

import { asRole, type Claims, requestRoles } from '../../database/as-role.ts';
import { type Database, DatabaseError, type Session } from '../../database/database.ts';

/**
 * Allowed senders of broadcasts and presence to public topics. `everyone`: as in the client protocol. `privileged`: clients that the
 * insert policies of `realtime.messages` allow, as on private topics; never visitors (role `anon`).
 */
export type PublicSenders = 'everyone' | 'privileged';

/** Read or write rights on a private topic. */
export interface Rights {
  broadcast: boolean;
  presence: boolean;
}

/** Rights on public topics. */
export const allRights: Rights = { broadcast: true, presence: true };
export const noRights: Rights = { broadcast: false, presence: false };
const extensions = ['broadcast', 'presence'] as const;

/** Caller and topic. */
export interface RightsQuestion {
  claims: Claims;
  /** Without `realtime:`. */
  topic: string;
  isPrivate: boolean;
  headers: Readonly<Record<string, string>>;
}

/**
 * Whether the select policies show messages of the topic.
 * @throws DatabaseError when a policy itself fails or the database is unavailable
 */
export function readRights(database: Database, question: RightsQuestion): Promise<Rights> {
  return queryRights(database, question, async (session) => {
    const rights = { ...noRights };
    await session.query('savepoint probe');
    // The owner of the table inserts the probe rows, because policies do not apply to the owner.
    await session.query(`select set_config('role', 'none', true)`);
    const probes = await session.query<{ id: string }>(
      `insert into realtime.messages (topic, extension, private)
       select $1, extension, $3 from unnest($2::text[]) as extension returning id`,
      [question.topic, `{${extensions.join(',')}}`, question.isPrivate],
    );
    await session.query(`select set_config('role', $1, true)`, [question.claims.role]);
    const visible = await session.query<{ extension: keyof Rights }>(
      'select extension from realtime.messages where id = any($1::uuid[])',
      [`{${probes.rows.map(({ id }) => id).join(',')}}`],
    );
    for (const { extension } of visible.rows) rights[extension] = true;
    await session.query('rollback to savepoint probe');
    return rights;
  });
}

/**
 * Whether the insert policies allow messages to the topic.
 * @throws DatabaseError when a policy itself fails or the database is unavailable
 */
export function writeRights(database: Database, question: RightsQuestion): Promise<Rights> {
  return queryRights(database, question, async (session) => {
    const rights = { ...noRights };
    for (const extension of extensions) {
      await session.query('savepoint probe');
      rights[extension] = await session
        .query('insert into realtime.messages (topic, extension, private) values ($1, $2, $3)', [
          question.topic,
          extension,
          question.isPrivate,
        ])
        .then(() => true, refusal);
      await session.query('rollback to savepoint probe');
    }
    return rights;
  });
}

/** Queries inside the transaction that tests the policies. */
export const queriesForRights = 7;

/**
 * Send rights that need no query: everything on public topics, or nothing for visitors.
 * @returns null when the policies must be queried
 */
export function knownRightsToSend(
  { publicSenders }: { publicSenders: PublicSenders },
  { isPrivate, claims }: Pick<RightsQuestion, 'isPrivate' | 'claims'>,
): Rights | null {
  if (isPrivate) return null;
  if (publicSenders === 'everyone') return allRights;
  return claims.role === 'anon' ? noRights : null;
}

async function queryRights(
  database: Database,
  { claims, topic, headers }: RightsQuestion,
  work: (session: Session) => Promise<Rights>,
): Promise<Rights> {
  if (!requestRoles.has(claims.role)) return noRights;
  return asRole(
    database,
    claims,
    async (session) => {
      await session.query(
        `select set_config('realtime.topic', $1, true), set_config('request.jwt.claim.sub', $2, true),
                set_config('request.jwt.claim.role', $3, true)`,
        [topic, claims.sub ?? '', claims.role],
      );
      return work(session);
    },
    { request: { headers } },
  );
}

const insufficientPrivilege = '42501';

function refusal(error: unknown): false {
  if (error instanceof DatabaseError && error.code === insufficientPrivilege) return false;
  throw error;
}
