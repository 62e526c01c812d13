// Checks whether a hosted project is ready for the shop, and reports missing parts.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { withTimeout } from '../../../domain/timeout.ts';
import { createStore, type Store } from '../../../supabase/store.ts';
import type { Config } from '../settings/config.ts';
import { checkFunction } from './hosted-function.ts';
import { checkRealtime, checkSignIn, checkStorage, dbPush, type Finding } from './hosted-services.ts';

/** One requirement: fulfilled, or the problem and its remedy. */
export interface Requirement {
  name: string;
  problem: string | null;
  remedy: string | null;
}

type Project = NonNullable<Config['supabase']>;

const timeoutMs = 10_000;

interface CheckOptions {
  /** The local MPESA_ENV. */
  environment: Config['mpesa']['environment'];
  /** The local PUBLIC_URL. */
  publicUrl: string;
  /** The project's folder, with the migrations and the bundled function. Null: their versions are not compared. */
  root: string | null;
  /** Also stores an image, reads it and deletes it. Otherwise nothing is changed. */
  withProbe: boolean;
}

type Report = (name: string, problem: string | null, remedy?: string | null) => boolean;

/**
 * Checks a project.
 * @returns all requirements; those that cannot be checked because an earlier one is missing are left out
 */
export async function checkHostedProject(project: Project, options: CheckOptions): Promise<Requirement[]> {
  const { url, publishableKey, secretKey } = project;
  const found: Requirement[] = [];
  const report: Report = (name, problem, remedy = null) => {
    found.push({ name, problem, remedy: problem ? remedy : null });
    return problem === null;
  };
  const reportFinding = (name: string, finding: Finding | null) =>
    report(name, finding?.problem ?? null, finding?.remedy);
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

  const hasTables = !read.error && staffCode === '';
  const migrations = hasTables
    ? await checkMigrations(shop, options.root)
    : { problem: `the tables are missing (${read.error?.code ?? staffCode})`, remedy: dbPush };
  reportFinding('Migrations', migrations);
  reportFinding('Sign-in', await checkSignIn(project));
  if (hasTables) {
    reportFinding('Storage', await checkStorage(project, options.withProbe));
    reportFinding('Realtime', await checkRealtime(project));
  }
  reportFinding('Payment function', await checkFunction(project, options));
  if (!hasTables) return found;

  const [products, orders] = [
    await attempt(async () => visitor.from('products').select('id').limit(1)),
    await attempt(async () => visitor.from('orders').select('id').limit(1)),
  ];
  const areOrdersOpen = !('failure' in orders) && (orders.data?.length ?? 0) > 0;
  const areProductsClosed = !('failure' in products) && products.error?.code === '42501';
  report(
    'Rights',
    areOrdersOpen ? 'visitors can read orders' : areProductsClosed ? 'visitors cannot read products' : null,
    `someone changed rights or policies by hand: undo that, or compare with \`npx supabase db diff --linked\``,
  );
  const hasProducts = !('failure' in products) && (products.data?.length ?? 0) > 0;
  report(
    'Catalogue',
    hasProducts || areProductsClosed ? null : 'there is no active product',
    'add products in the staff panel, or load the demo catalogue: npx supabase db push --include-seed',
  );
  report(
    'Staff',
    !('failure' in staff) && (staff.count ?? 0) > 0 ? null : 'there is no active staff account',
    'start the shop with ADMIN_EMAIL set: it creates the first account',
  );
  return found;
}

/** Compares the applied migrations with those of this version of the shop. */
async function checkMigrations(shop: Store['tables'], root: string | null): Promise<Finding | null> {
  const answer = await attempt(async () => shop.rpc('applied_migrations'));
  if ('failure' in answer || answer.error) {
    return { problem: 'the database is older than this version of the shop', remedy: dbPush };
  }
  if (root === null) return null;
  const known = (await readdir(join(root, 'supabase/migrations')))
    .flatMap((name) => /^(\d{14})_.*\.sql$/.exec(name)?.[1] ?? [])
    .sort();
  const missing = known.filter((version) => !answer.data.includes(version));
  if (missing.length > 0) {
    return {
      problem: `the database is older than this version of the shop: migration ${missing[0]} is missing`,
      remedy: dbPush,
    };
  }
  const newer = answer.data.find((version) => version > (known.at(-1) ?? ''));
  return newer === undefined
    ? null
    : {
        problem: `the database is newer than this version of the shop: it has migration ${newer}`,
        remedy: 'update the shop (git pull, npm run build)',
      };
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
