// Who may import whom: the walls of the house, checked in every file.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const rooms = [
  'domain',
  'simulators',
  'backend',
  'supabase',
  'web',
  'server',
  'e2e',
  'conformance',
  'benchmarks',
  'torture',
  'scripts',
];

// For each room (the longest name that fits counts): what of ours its files may import, besides their own room.
const allowed: Record<string, string[]> = {
  domain: [],
  simulators: [],
  'backend/database': [],
  'backend/data': ['backend/database', 'backend/*'],
  'backend/auth': ['backend/database', 'backend/*'],
  'backend/storage': ['backend/database', 'backend/*'],
  'backend/realtime': ['backend/database', 'backend/*'],
  'backend/functions': ['backend/database', 'backend/*'],
  backend: [
    'backend/database',
    'backend/data',
    'backend/auth',
    'backend/storage',
    'backend/realtime',
    'backend/functions',
  ],
  'supabase/functions': ['domain', 'supabase/*'],
  supabase: [],
  'web/ui': ['domain'],
  'web/lib': ['domain', 'supabase/*'],
  'web/storefront': ['web/ui', 'web/lib', 'domain', 'supabase/*'],
  'web/admin': ['web/ui', 'web/lib', 'domain', 'supabase/*'],
  web: ['web/ui', 'web/lib', 'web/storefront', 'web/admin', 'domain', 'supabase/*'],
  server: ['*'],
  scripts: ['*'],
  e2e: ['scripts'],
  conformance: ['scripts'],
  benchmarks: ['scripts'],
  torture: ['scripts', 'simulators'],
};
// Tests wire up what they need for themselves.
const allowedInTests: Record<string, string[]> = {
  'supabase/functions': [
    'backend',
    'backend/database',
    'backend/data',
    'simulators',
    'scripts',
    'supabase/tests',
  ],
  'supabase/tests': ['backend/database', 'scripts', 'domain'],
  torture: ['backend/database'],
  conformance: [
    'backend',
    'backend/database',
    'backend/data',
    'backend/auth',
    'backend/realtime',
    'backend/functions',
  ],
};

const roomOf = (file: string): string => {
  const names = [...Object.keys(allowed), ...Object.keys(allowedInTests)];
  const fitting = names.filter((room) => file.startsWith(`${room}/`)).sort((a, b) => b.length - a.length);
  return fitting[0] ?? dirname(file);
};

const sourceFiles = rooms
  .flatMap((room) => {
    try {
      return readdirSync(join(root, room), { recursive: true, encoding: 'utf8' }).map((path) =>
        join(room, path),
      );
    } catch {
      return [];
    }
  })
  .filter((path) => /\.(ts|tsx)$/.test(path) && !path.includes('node_modules'));

const importPattern =
  /(?:import|export)\s(?:[^'"]*?\sfrom\s)?['"](\.[^'"]+)['"]|import\(\s*['"](\.[^'"]+)['"]\s*\)/g;

interface Import {
  from: string;
  to: string;
}

const imports: Import[] = sourceFiles.flatMap((from) =>
  [...readFileSync(join(root, from), 'utf8').matchAll(importPattern)].map((match) => ({
    from,
    to: relative(root, join(root, dirname(from), match[1] ?? match[2] ?? '')),
  })),
);

function isAllowed({ from, to }: Import): boolean {
  if (to.startsWith('.react-router/') || to.includes('+types/')) return true;
  const room = roomOf(from);
  const target = roomOf(to);
  if (room === target || from.startsWith(`${target}/`) || dirname(to) === dirname(from)) return true;
  const lists = [allowed[room] ?? allowed[room.split('/')[0] ?? ''] ?? []];
  if (/\.test\.tsx?$/.test(from) || from.startsWith('supabase/tests/'))
    lists.push(allowedInTests[room] ?? []);
  return lists
    .flat()
    .some(
      (entry) =>
        entry === '*' || entry === target || (entry.endsWith('/*') && dirname(to) === entry.slice(0, -2)),
    );
}

describe('the rooms of the house', () => {
  test('are all looked at', () => {
    expect(sourceFiles.length).toBeGreaterThan(50);
    expect(imports.length).toBeGreaterThan(50);
  });

  test('import only what they may', () => {
    expect(imports.filter((one) => !isAllowed(one)).map(({ from, to }) => `${from} imports ${to}`)).toEqual(
      [],
    );
  });

  test('would be told of a wall that is broken', () => {
    expect(isAllowed({ from: 'domain/money.ts', to: 'web/lib/store.ts' })).toBe(false);
    expect(isAllowed({ from: 'backend/data/sql.ts', to: 'backend/realtime/socket.ts' })).toBe(false);
    expect(isAllowed({ from: 'web/storefront/shop/shop-page.tsx', to: 'web/admin/x.tsx' })).toBe(false);
    expect(isAllowed({ from: 'web/ui/price.tsx', to: 'supabase/types.ts' })).toBe(false);
    expect(
      isAllowed({ from: 'simulators/daraja/ledger.ts', to: 'supabase/functions/mobile-money/daraja.ts' }),
    ).toBe(false);
  });

  test('say no noun of the shop in the backend', () => {
    const nouns = /\b(product|order_item|tracking_number|juice|mpesa|m-pesa|daraja|shopper|inquir)/i;
    const told = sourceFiles
      .filter((path) => path.startsWith('backend/'))
      .filter((path) => nouns.test(readFileSync(join(root, path), 'utf8')));
    expect(told).toEqual([]);
  });
});
