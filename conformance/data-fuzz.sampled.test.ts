// Random requests of a visitor cause no internal error and no timeout, and return public rows only.

import { testDatabases } from '@jani-juice/backend/testing';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type OpenServices, openServices } from '../scripts/tests/open-services.ts';
import { isExhaustive } from '../scripts/tests/test-depth.ts';

const count = Number(process.env.FUZZ_REQUESTS ?? (isExhaustive ? 1500 : 400));
const firstSeed = Number(process.env.FUZZ_SEED ?? 7);
/** Milliseconds after which the service cancels a statement. */
const longest = 8000;
const secret = 'Zqxhiddenword';

vi.setConfig({ testTimeout: 120_000 + count * 100 });

/** Reproducible random numbers from a seed. */
function randomFrom(seed: number) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number) => Math.floor(next() * limit);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)] as T;
  return { below, pick, chance: (part: number) => next() < part };
}
type Random = ReturnType<typeof randomFrom>;

interface Vocabulary {
  relations: string[];
  /** Columns by relation. */
  columns: string[];
  columnsOf: ReadonlyMap<string, string[]>;
  functions: Array<{ name: string; parameters: string[] }>;
}

/** A lone surrogate cannot be encoded in a URL. */
const wellFormed = (text: string) => text.replaceAll(/\p{Surrogate}/gu, '\ufffd');

const hostile = [
  ...[
    "'",
    '"',
    '\\',
    '\0',
    '`',
    ';',
    '--',
    '/*',
    '*/',
    '$1',
    '$$',
    '%',
    '_',
    '*',
    '(',
    ')',
    '{',
    '}',
    '[',
    ']',
  ],
  ...[
    "' or '1'='1",
    '"; drop table orders; --',
    "'; select pg_sleep(30); --",
    '1; commit; --',
    '") union select 1 --',
  ],
  ...[
    '\u202e',
    '\u0000',
    '\ud800',
    '💣',
    'ﬀ',
    'İ',
    'a'.repeat(5000),
    '('.repeat(300),
    '->>',
    '::',
    '..',
    ',,',
    '&&',
  ],
  ...[
    'null',
    'NaN',
    'Infinity',
    '-0',
    '1e999',
    '99999999999999999999',
    '0x10',
    'true',
    'epoch',
    '2026-13-45',
    '{}',
    '[]',
  ],
  ...[
    'pg_sleep(30)',
    'current_user',
    'regclass',
    'pg_catalog.pg_class',
    'auth.users',
    '00000000-0000-0000-0000-000000000000',
  ],
];
const operators = [
  ...[
    'eq',
    'neq',
    'gt',
    'gte',
    'lt',
    'lte',
    'like',
    'ilike',
    'match',
    'imatch',
    'in',
    'is',
    'isdistinct',
    'fts',
  ],
  ...[
    'plfts',
    'phfts',
    'wfts',
    'cs',
    'cd',
    'ov',
    'sl',
    'sr',
    'nxr',
    'nxl',
    'adj',
    'like(any)',
    'eq(all)',
    'fts(english)',
  ],
];
/** Relations that visitors may read. */
const readable = ['products', 'categories', 'brands', 'store_settings'];
const types = [
  'text',
  'int',
  'json',
  'jsonb',
  'xml',
  'regclass',
  'uuid',
  'timestamptz',
  'text[]',
  'nosuchtype',
  'name',
];
const aggregates = ['.sum()', '.avg()', '.count()', '.max()', '.min()'];

class Asker {
  readonly #random: Random;
  readonly #words: Vocabulary;
  /** The requested relation. */
  #relation = '';
  constructor(random: Random, words: Vocabulary) {
    this.#random = random;
    this.#words = words;
  }

  /** Usually a name in the database, sometimes another text. */
  #name(words: readonly string[]): string {
    const { pick, chance } = this.#random;
    const name = chance(0.97) ? pick(words) : pick(hostile);
    return chance(0.1) ? `"${name}"` : name;
  }
  #column = () => {
    const { chance, pick } = this.#random;
    const path = chance(0.1) ? `${pick(['->', '->>'])}${pick(['a', '0', '-1', ...hostile])}` : '';
    const own = chance(0.8) ? this.#words.columnsOf.get(this.#relation) : undefined;
    return this.#name(own ?? this.#words.columns) + path;
  };
  #value = () => {
    const { pick, chance, below } = this.#random;
    if (chance(0.3)) return pick(hostile);
    return pick([
      String(below(100)),
      'pending',
      'true',
      `(${below(9)},${below(9)})`,
      `{${pick(hostile)}}`,
      'a b',
      secret.slice(0, 1),
    ]);
  };
  #filter = () => {
    const { pick, chance } = this.#random;
    return `${chance(0.15) ? 'not.' : ''}${chance(0.98) ? pick(operators) : pick(hostile)}.${this.#value()}`;
  };
  #condition = (depth: number): string => {
    const { pick, chance } = this.#random;
    if (depth > 0 && chance(0.3)) {
      const inner = [this.#condition(depth - 1), this.#condition(depth - 1)];
      return `${chance(0.2) ? 'not.' : ''}${pick(['and', 'or'])}(${inner.join(',')})`;
    }
    return `${this.#column()}.${this.#filter()}`;
  };
  #select = (depth: number): string => {
    const { pick, chance, below } = this.#random;
    const items = Array.from({ length: 1 + below(3) }, () => {
      if (depth > 0 && chance(0.35)) {
        const hint = chance(0.2) ? `!${this.#name([...this.#words.columns, 'inner', 'left'])}` : '';
        const before = chance(0.1) ? '...' : chance(0.1) ? 'alias:' : '';
        return `${before}${this.#name(this.#words.relations)}${hint}(${this.#select(depth - 1)})`;
      }
      if (chance(0.3)) return pick(['*', 'count', 'count()', '']);
      const cast = chance(0.1) ? `::${pick(types)}` : '';
      return `${chance(0.1) ? 'x:' : ''}${this.#column()}${cast}${chance(0.05) ? pick(aggregates) : ''}`;
    });
    return items.join(',');
  };
  #search(): string {
    const { pick, chance, below } = this.#random;
    const pairs: Array<[string, string]> = [];
    if (chance(0.6)) pairs.push(['select', this.#select(3)]);
    for (let left = below(3); left > 0; left--) pairs.push([this.#column(), this.#filter()]);
    if (chance(0.3)) pairs.push([pick(['or', 'and', 'not.or', 'not.and']), `(${this.#condition(3)})`]);
    if (chance(0.3)) {
      const direction = pick(['', '.asc', '.desc', '.nullsfirst', '.desc.nullslast', pick(hostile)]);
      pairs.push([
        pick(['order', 'orders.order', `${this.#name(this.#words.relations)}.order`]),
        this.#column() + direction,
      ]);
    }
    if (chance(0.2)) pairs.push(['limit', pick(['0', '5', '-1', '99999999999', pick(hostile)])]);
    if (chance(0.2)) pairs.push(['offset', pick(['0', '5', '-1', '99999999999', pick(hostile)])]);
    if (chance(0.1))
      pairs.push([pick(['columns', 'on_conflict', 'select.limit', 'and', '']), this.#select(0)]);
    const encode = (text: string) => (chance(0.95) ? encodeURIComponent(wellFormed(text)) : escape(text));
    return pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join('&');
  }
  #body(parameters: readonly string[]): string {
    const { pick, chance, below } = this.#random;
    if (chance(0.15))
      return pick(['', 'null', '[]', '{}', '[{}]', '[1]', '"x"', '{"a":', 'a,b\n1,2', ...hostile]);
    const row = () =>
      Object.fromEntries(
        Array.from({ length: below(4) }, () => [
          this.#name(parameters),
          pick<unknown>([this.#value(), below(50), null, true, [1, 'a'], { a: pick(hostile) }, -1.5]),
        ]),
      );
    return JSON.stringify(chance(0.7) ? row() : [row(), row()]);
  }

  request(): { path: string; init: RequestInit } {
    const { pick, chance } = this.#random;
    const called = chance(0.25) ? pick(this.#words.functions) : null;
    const method = pick(['GET', 'GET', 'GET', 'GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS']);
    this.#relation = this.#name(chance(0.8) ? readable : this.#words.relations);
    const target = called ? `rpc/${called.name}` : encodeURIComponent(wellFormed(this.#relation));
    const headers: Record<string, string> = {};
    const sometimes = (part: number, name: string, values: readonly string[]) => {
      if (chance(part)) headers[name] = pick(values);
    };
    sometimes(0.3, 'prefer', [
      ...[
        'return=representation',
        'return=headers-only',
        'count=exact',
        'count=planned',
        'count=estimated',
        'tx=rollback',
      ],
      ...[
        'resolution=merge-duplicates',
        'missing=default',
        'handling=strict, max-affected=1',
        'timezone=Mars/Base',
        'a=b',
      ],
    ]);
    sometimes(0.2, 'accept', [
      ...[
        'text/csv',
        'application/vnd.pgrst.object+json',
        'application/vnd.pgrst.plan+json',
        '*/*;q=0',
        'text/xml',
      ],
      ...[
        'application/vnd.pgrst.array+json;nulls=stripped',
        'application/openapi+json',
        'application/geo+json',
        '"',
        ',;=',
      ],
    ]);
    sometimes(0.1, 'range', ['0-5', '5-', '9-1', 'items=0-1', '-']);
    sometimes(0.1, pick(['accept-profile', 'content-profile']), [
      'public',
      'auth',
      'private',
      'pg_catalog',
      '"',
    ]);
    sometimes(0.1, 'content-type', [
      'text/csv',
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/octet-stream',
    ]);
    if (!['GET', 'HEAD', 'OPTIONS'].includes(method)) headers['content-type'] ??= 'application/json';
    const hasBody = method === 'POST' || method === 'PATCH' || method === 'PUT';
    return {
      path: chance(0.01) ? '/' : `/${target}?${this.#search()}`,
      init: {
        method,
        headers,
        ...(hasBody ? { body: this.#body(called?.parameters ?? this.#words.columns) } : {}),
      },
    };
  }
}

describe.each(testDatabases())('random requests of a visitor on %s', (kind) => {
  let services: OpenServices;
  let root: string;
  let words: Vocabulary;
  beforeAll(async () => {
    services = await openServices(kind);
    root = services.url.replace('/storage/v1', '/rest/v1');
    const { database } = services;
    await database.execute(`
      insert into public.categories (name, is_active) values ('${secret} category', false);
      insert into public.inquiries (name, email, subject, message)
        values ('${secret}', 'hidden@example.com', '${secret}', '${secret}');
      insert into auth.users (id, email) values (gen_random_uuid(), '${secret}@example.com');`);
    const names = await database.query<{ relation: string; column: string }>(
      `select table_name as relation, column_name as column from information_schema.columns where table_schema = 'public'`,
    );
    const functions = await database.query<{ name: string; parameters: string[] }>(
      `select proname as name, coalesce(to_json(proargnames), '[]') as parameters
       from pg_proc where pronamespace = 'public'::regnamespace`,
    );
    const columnsOf = new Map<string, string[]>();
    for (const { relation, column } of names.rows) {
      columnsOf.set(relation, [...(columnsOf.get(relation) ?? []), column]);
    }
    words = {
      columnsOf,
      relations: [...new Set(names.rows.map(({ relation }) => relation)), 'users', 'nothing'],
      columns: [...new Set(names.rows.map(({ column }) => column))],
      functions: functions.rows,
    };
  });
  afterAll(async () => {
    await services.close();
  });

  test('never return hidden rows, internal errors or timeouts', async () => {
    const wrong: unknown[] = [];
    let sent = 0;
    const statuses = new Map<number, number>();
    const asker = new Asker(randomFrom(firstSeed), words);
    const ask = async () => {
      while (sent < count && wrong.length < 5) {
        sent++;
        const { path, init } = asker.request();
        const since = performance.now();
        const response = await fetch(`${root}${path}`, {
          ...init,
          headers: { ...init.headers, apikey: services.keys.publishable },
        });
        const received = `${[...response.headers].flat().join(' ')} ${await response.text()}`;
        const took = performance.now() - since;
        statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
        const isLate = took > longest || received.includes('57014');
        if (response.status >= 500 || received.includes(secret) || isLate) {
          wrong.push({ path, init, status: response.status, took, received: received.slice(0, 500) });
        }
      }
    };
    await Promise.all(Array.from({ length: 8 }, ask));
    expect(wrong).toEqual([]);
    expect(services.errors).toEqual([]);
    // Enough requests were valid.
    expect((statuses.get(200) ?? 0) / count).toBeGreaterThan(0.05);
    const still = await fetch(`${root}/categories?select=id`, {
      headers: { apikey: services.keys.publishable },
    });
    expect(still.status).toBe(200);
  });
});
