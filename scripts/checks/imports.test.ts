// The import rules of docs/architecture.md, checked in every file: modules, packages, and files read by path.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';
import { packageEntries, projectPackage, workspacePackages } from './package-entries.ts';

const root = join(import.meta.dirname, '../..');

/**
 * Allowed imports of a module besides its own files. A module is a folder; the longest matching name applies to a file.
 * An entry `x` allows the module `x` and those below it, `x/*` the files directly in the folder `x`, and a path that file or folder itself.
 */
interface Rule {
  modules: readonly string[];
  /** `production`: any that package.json lists under dependencies; `any`: development ones too. */
  packages: readonly string[] | 'production' | 'any';
  /** Further modules for its tests. Tests may use any listed package. */
  inTests?: readonly string[];
}

const inBackend = (...modules: string[]) => modules.map((module) => `packages/backend/${module}`);
const shared = inBackend('database', 'limits', 'http', '*');
const kits = inBackend('testing', 'platform');
const development = { modules: ['scripts'], packages: 'any' } as const;
const rules: Record<string, Rule> = {
  // The literal types of states and kinds.
  domain: { modules: ['supabase/types.ts'], packages: [], inTests: ['supabase/migrations'] },
  'packages/daraja-simulator': { modules: [], packages: 'production' },
  'packages/backend/database': {
    modules: inBackend('durable-file.ts'),
    packages: ['pg', '@electric-sql/pglite', 'modern-tar'],
    inTests: kits,
  },
  'packages/backend/platform': { modules: [], packages: [] },
  'packages/backend/limits': { modules: inBackend('database', '*'), packages: ['ipaddr.js'] },
  'packages/backend/http': {
    modules: inBackend('limits', 'realtime/limits.ts', '*'),
    packages: [],
  },
  'packages/backend/data': { modules: shared, packages: [], inTests: kits },
  'packages/backend/auth': {
    modules: shared,
    packages: [
      '@node-rs/argon2',
      '@node-saml/node-saml',
      '@noble/curves',
      '@simplewebauthn/server',
      '@xmldom/xmldom',
      '@zxcvbn-ts/language-common',
      'bs58',
      'ipaddr.js',
      'jose',
      'openid-client',
      'otpauth',
      'qrcode',
      'undici',
      'viem',
    ],
    inTests: kits,
  },
  'packages/backend/storage': {
    modules: shared,
    packages: ['@fastify/busboy', '@tus/file-store', '@tus/server', 'aws4fetch', 'jose', 'sharp'],
    inTests: kits,
  },
  'packages/backend/realtime': { modules: shared, packages: ['jose', 'ws'], inTests: kits },
  'packages/backend/functions': { modules: shared, packages: ['jose'], inTests: kits },
  'packages/backend/standalone': {
    modules: [...shared, ...inBackend('data')],
    packages: ['@hono/node-server', 'jose'],
    inTests: kits,
  },
  'packages/backend/testing': { modules: ['packages/backend'], packages: 'any' },
  'packages/backend/conformance': {
    modules: inBackend('testing'),
    packages: 'any',
    inTests: ['packages/backend'],
  },
  'packages/backend/exports': { modules: ['packages/backend'], packages: [] },
  'packages/backend': {
    modules: inBackend('database', 'limits', 'http', 'data', 'auth', 'storage', 'realtime', 'functions'),
    packages: ['jose'],
    inTests: kits,
  },
  'supabase/functions': {
    modules: ['domain', 'supabase/*'],
    packages: ['@supabase/postgrest-js'],
    inTests: [
      'packages/backend',
      'packages/backend/database',
      'packages/backend/data',
      'packages/daraja-simulator',
      'scripts',
      'supabase/tests',
    ],
  },
  'supabase/tests': {
    modules: [
      'supabase',
      'supabase/functions',
      'packages/backend',
      'packages/daraja-simulator',
      'scripts',
      'domain',
    ],
    packages: 'any',
  },
  // `store.ts`: the client of the shop's tables and function.
  supabase: { modules: [], packages: ['@supabase/functions-js', '@supabase/postgrest-js'] },
  'web/ui': {
    modules: ['domain'],
    packages: ['radix-ui', 'react', 'react-dom', 'react-router', 'sonner', 'vaul'],
  },
  'web/lib': {
    modules: ['domain', 'supabase/*'],
    packages: [
      '@supabase/auth-js',
      '@supabase/functions-js',
      '@supabase/postgrest-js',
      '@supabase/realtime-js',
      '@supabase/storage-js',
      'markdown-it',
      'react-router',
    ],
  },
  'web/storefront': {
    // `root.tsx`: the type of its loader data, which every page receives.
    modules: ['web/ui', 'web/lib', 'web/root.tsx', 'domain', 'supabase/*'],
    // The last has types only.
    packages: ['@supabase/functions-js', '@supabase/postgrest-js', 'react', 'react-router', 'schema-dts'],
    inTests: ['e2e'],
  },
  'web/rider': {
    modules: ['web/lib', 'domain', 'supabase/*'],
    packages: ['react', 'react-dom', 'react-router'],
  },
  'web/admin': {
    modules: ['web/ui', 'web/lib', 'domain', 'supabase/*'],
    packages: [
      '@supabase/auth-js',
      '@tanstack/react-query',
      'papaparse',
      'radix-ui',
      'react',
      'react-dom',
      'react-router',
      'recharts',
    ],
    inTests: ['web/testing', 'e2e'],
  },
  // The kit of the component tests.
  'web/testing': {
    modules: ['packages/backend', 'scripts', 'server', 'supabase/*', 'web', 'e2e'],
    packages: 'any',
  },
  'web/service-worker': {
    modules: ['web/lib', 'domain'],
    packages: ['workbox-core', 'workbox-expiration', 'workbox-routing', 'workbox-strategies'],
  },
  web: {
    modules: ['web/ui', 'web/lib', 'web/storefront', 'web/admin', 'domain', 'supabase/*'],
    // The last lists the routes when the pages are built.
    packages: ['react', 'react-dom', 'react-router', 'isbot', '@react-router/dev'],
  },
  server: {
    modules: [
      'packages/backend',
      'supabase',
      'supabase/functions',
      'domain',
      // What a page's loaders receive.
      'web/lib/shop-context.ts',
      'packages/daraja-simulator',
    ],
    packages: 'production',
    inTests: ['scripts'],
  },
  // The kits of the tests and the commands. Re-exports are forbidden here: nothing reaches others through this folder.
  scripts: {
    modules: ['packages/backend', 'supabase', 'domain', 'web', 'server', 'packages/daraja-simulator'],
    packages: 'any',
  },
  e2e: development,
  conformance: { ...development, inTests: ['packages/backend'] },
  benchmarks: { modules: ['scripts', 'packages/daraja-simulator', 'torture'], packages: 'any' },
  torture: {
    modules: ['scripts', 'packages/daraja-simulator'],
    packages: 'any',
    inTests: ['packages/backend'],
  },
};

const modules = Object.keys(rules).sort((a, b) => b.length - a.length);
const moduleOf = (file: string): string =>
  modules.find((module) => file.startsWith(`${module}/`)) ?? dirname(file);
const isTest = (file: string) =>
  /\.test\.tsx?$|\/(?:throwaway|test)[\w-]*\.ts$|^supabase\/tests\//.test(file);

const sourceFiles = [...new Set(Object.keys(rules).map((module) => module.split('/')[0] ?? ''))]
  .flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => join(folder, path)),
  )
  .filter((path) => /\.(ts|tsx|mjs|sql)$/.test(path));
const codeFiles = sourceFiles.filter((path) => !path.endsWith('.sql'));
const textOf = (path: string) => readFileSync(join(root, path), 'utf8');

interface Import {
  from: string;
  to: string;
}

const importPattern =
  /(?:^|\n)\s*(?:import|export)\s(?:[^'";]*?\sfrom\s)?['"]([^'"]+)['"]|import\(\s*['"]([^'"]+)['"]\s*\)/g;
/** Files that code reads: relative to itself, or from the root. */
const pathPattern =
  /new URL\(\s*['"]([^'"]+)['"],\s*import\.meta\.url|['"]([\w-]+\/[\w./-]+\.(?:sql|json))['"]/g;

const imports: Import[] = codeFiles.flatMap((from) =>
  [...textOf(from).matchAll(importPattern)].map((match) => ({ from, to: match[1] ?? match[2] ?? '' })),
);
const isOurs = ({ to }: Import) => to.startsWith('.') || to.startsWith('@jani-juice/');
const resolve = ({ from, to }: Import): Import => ({
  from,
  to: packageEntries.get(to) ?? relative(root, join(root, dirname(from), to.replace(/\?.*$/, ''))),
});
const readFiles: Import[] = codeFiles.flatMap((from) =>
  [...textOf(from).matchAll(pathPattern)]
    .map((match) => (match[1] ? resolve({ from, to: match[1] }) : { from, to: match[2] ?? '' }))
    .filter(({ to }) => moduleOf(to) in rules && existsSync(join(root, to))),
);

function isAllowed({ from, to }: Import): boolean {
  if (to.startsWith('.react-router/') || to.includes('+types/')) return true;
  if (moduleOf(from) === moduleOf(to)) return true;
  const rule = rules[moduleOf(from)];
  const entries = [...(rule?.modules ?? []), ...(isTest(from) ? (rule?.inTests ?? []) : [])];
  return entries.some((entry) =>
    entry.endsWith('/*')
      ? dirname(to) === entry.slice(0, -2)
      : to === entry || moduleOf(to) === entry || moduleOf(to).startsWith(`${entry}/`),
  );
}

/** The package to which a file belongs. */
const ownerOf = (file: string) =>
  workspacePackages.find(({ folder }) => file.startsWith(`${folder}/`)) ?? projectPackage;
const packageOf = (name: string) =>
  name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/');

function isPackageAllowed({ from, to }: Import): boolean {
  if (/^(node|virtual):/.test(to)) return true;
  const { dependencies, devDependencies } = ownerOf(from);
  const packages = rules[moduleOf(from)]?.packages ?? [];
  if (packages === 'any' || isTest(from)) return packageOf(to) in { ...dependencies, ...devDependencies };
  return packages === 'production' ? packageOf(to) in dependencies : packages.includes(packageOf(to));
}

const describeImport = ({ from, to }: Import) => `${from} uses ${to}`;

describe('the import rules', () => {
  test('cover every file', () => {
    expect(codeFiles.length).toBeGreaterThan(800);
    expect(imports.length).toBeGreaterThan(2_000);
    expect(readFiles.length).toBeGreaterThan(5);
  });

  test('apply to modules and to files read by path', () => {
    const ours = [...imports.filter(isOurs).map(resolve), ...readFiles];
    expect(ours.filter((one) => !isAllowed(one)).map(describeImport)).toEqual([]);
  });

  test('apply to packages', () => {
    const external = imports.filter((one) => /^[@\w]/.test(one.to) && !isOurs(one));
    expect(external.filter((one) => !isPackageAllowed(one)).map(describeImport)).toEqual([]);
  });

  test('leave a package through its entries alone, and never from inside it', () => {
    const crossing = imports
      .filter(isOurs)
      .filter((one) => one.to.startsWith('.') === (ownerOf(one.from) !== ownerOf(resolve(one).to)));
    expect(crossing.map(describeImport)).toEqual([]);
  });

  test("keep image decoders out of the server's process", () => {
    const users = imports.filter(({ from, to }) => to === 'sharp' && !isTest(from)).map(({ from }) => from);
    expect(users.filter((from) => !from.startsWith('scripts/'))).toEqual([
      'packages/backend/storage/images/decode-images.ts',
    ]);
    const ours = imports.filter(isOurs).map(resolve);
    const importersOf = (file: string) => ours.filter(({ to }) => to === file).map(({ from }) => from);
    expect(importersOf('packages/backend/storage/images/decode-images.ts')).toEqual([
      'packages/backend/storage/images/image-worker.ts',
    ]);
    expect(importersOf('packages/backend/storage/images/image-worker.ts')).toEqual([]);
  });

  test('reject forbidden imports', () => {
    const forbidden: [from: string, to: string][] = [
      ['domain/money.ts', 'web/lib/shop-settings.ts'],
      ['domain/money.ts', 'supabase/functions/mobile-money/handler.ts'],
      ['packages/backend/data/sql/sql.ts', 'packages/backend/realtime/socket.ts'],
      ['packages/backend/auth/mfa/totp.ts', 'packages/backend/storage/objects.ts'],
      ['packages/backend/database/pglite/pglite.ts', 'packages/backend/limits/fair-queue.ts'],
      ['packages/backend/data/run/run.ts', 'supabase/seed.sql'],
      ['server/jobs/jobs.ts', 'web/lib/staff.ts'],
      ['web/storefront/shop/shop-page.tsx', 'web/admin/x.tsx'],
      ['web/ui/price.tsx', 'web/root.tsx'],
      ['web/ui/price.tsx', 'supabase/types.ts'],
      [
        'packages/daraja-simulator/ledger/ledger.ts',
        'supabase/functions/mobile-money/daraja/connection/client.ts',
      ],
    ];
    expect(forbidden.filter(([from, to]) => isAllowed({ from, to }))).toEqual([]);
    expect(isPackageAllowed({ from: 'web/storefront/home/home-page.tsx', to: 'recharts' })).toBe(false);
    expect(isPackageAllowed({ from: 'server/shop.ts', to: 'fast-check' })).toBe(false);
    expect(isPackageAllowed({ from: 'server/shop.ts', to: 'pino' })).toBe(true);
  });

  test('cannot be bypassed through scripts/, which re-exports nothing', () => {
    const reExports = codeFiles
      .filter((path) => path.startsWith('scripts/'))
      .filter((path) => /(?:^|\n)export\s(?:type\s)?(?:\*|\{[^}]*\})\s?(?:as \w+ )?from/.test(textOf(path)));
    expect(reExports).toEqual([]);
  });

  test('keep shop terms out of the backend', () => {
    const nouns = /\b(product|order_item|tracking_number|juice|mpesa|m-pesa|daraja|shopper|inquir)/i;
    const backend = sourceFiles.filter((path) => path.startsWith('packages/backend/'));
    expect(backend.filter((path) => nouns.test(textOf(path)))).toEqual([]);
  });
});
