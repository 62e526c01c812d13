// Creates the first staff account of a shop without staff, through the auth service's admin API and the table API, as an
// administrator of a hosted project would.
import { randomInt } from 'node:crypto';
import { WrongSetting } from '@jani-juice/backend/settings';
import { GoTrueAdminApi, type User } from '@supabase/auth-js';
import { keyHeaders, type Store } from '../../supabase/store.ts';
import type { Job } from '../jobs/jobs.ts';

export interface FirstAdminOptions {
  /** Uses the secret key. */
  store: Pick<Store, 'tables'>;
  /** Origin of the services. */
  servicesUrl: string;
  secretKey: string;
  /** Reaches the services without the network. Absent: over HTTP. */
  serviceFetch?: typeof fetch;
  email: string;
  /** Null: a random password is generated. */
  password: string | null;
}

export type FirstAdmin =
  /** There are staff accounts already, or another process has just created the first one. */
  | { outcome: 'not needed' }
  /** `password` is the generated password to show; null when it was configured. */
  | { outcome: 'made'; email: string; password: string | null }
  /** The email address belongs to an existing account, which is not made staff. */
  | { outcome: 'taken'; email: string };

const mark = 'first_admin';

/**
 * Creates the first staff account unless there is staff. Concurrent processes create one account, and a start
 * that was interrupted is completed by the next one.
 * @throws WrongSetting when `password` is too weak; an error with the services' response when they fail
 */
export async function ensureFirstAdmin(options: FirstAdminOptions): Promise<FirstAdmin> {
  const { store, servicesUrl, secretKey, serviceFetch, email } = options;
  const { count, error } = await store.tables
    .from('admin_profiles')
    .select('user_id', { count: 'exact', head: true });
  if (error) throw new Error(`staff could not be counted: ${error.message}`);
  if (count !== 0) return { outcome: 'not needed' };

  const admin = new GoTrueAdminApi({
    url: `${servicesUrl}/auth/v1`,
    headers: keyHeaders(secretKey),
    ...(serviceFetch ? { fetch: serviceFetch } : {}),
  });
  const password = options.password ?? randomPassword();
  const { data, error: refusal } = await admin.createUser({
    email,
    password,
    email_confirm: true,
    app_metadata: { [mark]: true },
  });
  if (data.user) {
    const { id } = data.user;
    await makeStaff(store, id).catch(async (error: unknown) => {
      // The next attempt creates it again, with a password that it can show.
      await admin.deleteUser(id);
      throw error;
    });
    return { outcome: 'made', email, password: options.password ? null : password };
  }
  if (refusal?.code === 'weak_password' && options.password) {
    throw new WrongSetting(`ADMIN_PASSWORD is not accepted: ${refusal.message}`);
  }
  if (refusal?.code !== 'email_exists') throw refusal ?? new Error('the first account was not created');
  const owner = await findUser(admin, email);
  if (owner?.app_metadata[mark] !== true) return { outcome: 'taken', email };
  await makeStaff(store, owner.id);
  return { outcome: 'not needed' };
}

const retryMs = 30_000;

/**
 * The job that creates the account once the project answers, after an attempt has failed.
 * @param onFirstAdmin receives the outcome, once
 */
export function retryFirstAdmin(
  create: () => Promise<FirstAdmin | null>,
  onFirstAdmin: (account: FirstAdmin) => void,
): Job {
  let isDone = false;
  return {
    name: 'create the first staff account',
    everyMs: retryMs,
    firstAfterMs: retryMs,
    async run() {
      if (isDone) return;
      const account = await create();
      isDone = true;
      if (account) onFirstAdmin(account);
    },
  };
}

async function makeStaff(store: FirstAdminOptions['store'], userId: string): Promise<void> {
  const { error } = await store.tables
    .from('admin_profiles')
    .upsert({ user_id: userId }, { ignoreDuplicates: true });
  if (error) throw new Error(`the first account could not be made staff: ${error.message}`);
}

async function findUser(admin: GoTrueAdminApi, email: string): Promise<User | null> {
  for (let page: number | null = 1; page !== null; ) {
    const { data, error }: Awaited<ReturnType<GoTrueAdminApi['listUsers']>> = await admin.listUsers({
      page,
      perPage: 200,
    });
    if (error) throw error;
    const found = data.users.find((user) => user.email?.toLowerCase() === email.toLowerCase());
    if (found) return found;
    page = data.users.length > 0 && 'nextPage' in data ? data.nextPage : null;
  }
  return null;
}

// Without ambiguous characters, because the password is typed from a console.
const alphabet = 'abcdefghjkmnpqrstuvwxyz23456789';

/** Twenty characters in groups of five: 99 bits. */
function randomPassword(): string {
  const characters = Array.from({ length: 20 }, () => alphabet[randomInt(alphabet.length)]).join('');
  return characters.replace(/(.{5})(?=.)/g, '$1-');
}
