// Checks whether a hosted project is ready for the shop, and reports missing parts.
import type { Setup } from '../domain/payment-setup.ts';
import { createStore } from '../web/lib/store.ts';
import { withTimeout } from '../web/lib/timeout.ts';
import type { Config } from './config.ts';

/** One requirement: fulfilled, or the problem and its remedy. */
export interface Requirement {
  name: string;
  problem: string | null;
  remedy: string | null;
}

type Project = NonNullable<Config['supabase']>;

const timeoutMs = 10_000;
const dbPush = 'npx supabase link, then npx supabase db push';

/**
 * Checks a project. It changes nothing there.
 * @param environment the local MPESA_ENV
 * @returns all requirements; those that cannot be checked because an earlier one is missing are left out
 */
export async function checkHostedProject(
  { url, publishableKey, secretKey }: Project,
  environment: Config['mpesa']['environment'],
): Promise<Requirement[]> {
  const found: Requirement[] = [];
  const report = (name: string, problem: string | null, remedy: string | null = null) => {
    found.push({ name, problem, remedy: problem ? remedy : null });
    return problem === null;
  };
  const visitor = createStore({ url, key: publishableKey }).tables;
  const shop = createStore({ url, key: secretKey }).tables;

  const read = await attempt(async () => visitor.from('store_settings').select('id').limit(1));
  if ('failure' in read) {
    report(
      'Project',
      `${url} does not answer (${read.failure})`,
      'check SUPABASE_URL, and whether the project is paused',
    );
    return found;
  }
  report('Project', null);
  if (
    !report(
      'Publishable key',
      read.status === 401 ? 'SUPABASE_PUBLISHABLE_KEY is not accepted' : null,
      'copy it from the project (Settings, API keys)',
    )
  )
    return found;

  const staff = await attempt(async () =>
    shop.from('admin_profiles').select('user_id', { count: 'exact' }).eq('is_active', true).limit(1),
  );
  const staffCode = 'failure' in staff ? staff.failure : (staff.error?.code ?? '');
  const isKeyWrong = !('failure' in staff) && (staff.status === 401 || staff.error?.code === '42501');
  if (
    !report(
      'Secret key',
      isKeyWrong ? 'SUPABASE_SECRET_KEY is not accepted as a secret key' : null,
      'copy it from the project (Settings, API keys)',
    )
  )
    return found;

  const newest = await attempt(async () => shop.rpc('claim_payment_job', { action: '' }));
  const isMigrated = !read.error && staffCode === '' && !('failure' in newest) && !newest.error;
  const isPartlyMigrated = !read.error && staffCode === '';
  report(
    'Migrations',
    isMigrated
      ? null
      : isPartlyMigrated
        ? 'the database is older than this version of the shop'
        : `the tables are missing (${read.error?.code ?? staffCode})`,
    dbPush,
  );
  await checkFunction({ url, secretKey }, environment, report);
  if (!isPartlyMigrated) return found;

  const products = await attempt(async () => visitor.from('products').select('id').limit(1));
  const hasProducts = !('failure' in products) && (products.data?.length ?? 0) > 0;
  report(
    'Catalogue',
    hasProducts ? null : 'there is no active product',
    'add products in the staff panel, or load the demo catalogue: npx supabase db push --include-seed',
  );
  report(
    'Staff',
    !('failure' in staff) && (staff.count ?? 0) > 0 ? null : 'there is no active staff account',
    'start the shop with ADMIN_EMAIL set: it creates the first account',
  );
  return found;
}

async function checkFunction(
  { url, secretKey }: Pick<Project, 'url' | 'secretKey'>,
  environment: Config['mpesa']['environment'],
  report: (name: string, problem: string | null, remedy?: string | null) => boolean,
): Promise<void> {
  const name = 'Payment function';
  const answer = await attempt(async () => {
    const response = await fetch(`${url}/functions/v1/mobile-money`, {
      method: 'POST',
      headers: {
        apikey: secretKey,
        authorization: `Bearer ${secretKey}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ action: 'describe-setup' }),
    });
    const body: unknown = await response.json().catch(() => null);
    return { status: response.status, body: (body ?? {}) as { setup?: Setup; problem?: string } };
  });
  if ('failure' in answer) {
    report(name, `it does not answer (${answer.failure})`, 'see its log in the project');
  } else if (answer.status === 404) {
    report(name, 'it is not deployed', 'npm run build, then npx supabase functions deploy mobile-money');
  } else if (answer.body.problem) {
    report(name, answer.body.problem, 'npx supabase secrets set NAME=value');
  } else if (answer.status === 401 || answer.status === 403) {
    report(
      name,
      'it does not accept SUPABASE_SECRET_KEY',
      'npx supabase secrets set SHOP_SECRET_KEY=… with the same key, or use a secret key of this project',
    );
  } else if (!answer.body.setup) {
    report(name, `it answers with status ${answer.status}`, 'see its log in the project');
  } else if (answer.body.setup.environment !== environment) {
    report(
      name,
      `its MPESA_ENV is ${answer.body.setup.environment}, here it is ${environment}`,
      'set both to the same',
    );
  } else {
    const fatal = answer.body.setup.callbackUrlProblems.find(({ isFatal }) => isFatal);
    const problem = environment === 'simulator' ? null : (fatal?.sentence ?? null);
    report(name, problem, 'M-PESA must reach the project by https');
  }
}

async function attempt<Answer>(question: () => Promise<Answer>): Promise<Answer | { failure: string }> {
  try {
    const answer = await withTimeout(question(), timeoutMs);
    // The table client reports a lost connection as an answer with status 0.
    const { status, error } = answer as { status?: number; error?: { message: string } | null };
    return status === 0 ? { failure: error?.message ?? 'no answer' } : answer;
  } catch (error) {
    return { failure: (error as Error).message };
  }
}
