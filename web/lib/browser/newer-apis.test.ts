import { createContext, runInContext } from 'node:vm';
import { beforeEach, expect, test, vi } from 'vitest';
import { addNewerApis } from './newer-apis.ts';

/** The global scope of a browser without the functions, with intrinsics of its own. */
let scope: typeof globalThis;
beforeEach(() => {
  scope = runInContext(
    `delete Array.prototype.at; delete String.prototype.at; delete Array.prototype.toSorted; delete Object.hasOwn;
     delete Object.getPrototypeOf(Uint8Array).prototype.at;
     ({ Array, String, Uint8Array, Object, run: (code, ...values) => Function('...values', code)(...values) })`,
    createContext({}),
  );
  Object.assign(scope, {
    URL: class extends URL {},
    AbortSignal: class {},
    crypto: { getRandomValues: crypto.getRandomValues.bind(crypto) },
  });
  // The static functions of a base class would be found.
  Object.setPrototypeOf(scope.URL, Function.prototype);
  addNewerApis(scope);
});
const run = (code: string, ...values: unknown[]) =>
  (scope as unknown as { run(code: string, ...values: unknown[]): unknown }).run(code, ...values);

test.each([
  ['[1, 2, 3].at(-1)', 3],
  ['[1, 2, 3].at(0)', 1],
  ['[1, 2, 3].at(1.9)', 2],
  ['[1, 2, 3].at(-4)', undefined],
  ['[].at(-1)', undefined],
  ['"JJ-7".at(-1)', '7'],
  ['"JJ".at(5)', undefined],
  ['new Uint8Array([7, 8]).at(-2)', 7],
  ['Object.hasOwn({ a: 1 }, "a")', true],
  ['Object.hasOwn({}, "toString")', false],
  ['Object.hasOwn(Object.create(null), "a")', false],
  ['[3, 1, 2].toSorted().join()', '1,2,3'],
  ['[3, 1, 2].toSorted((one, other) => other - one).join()', '3,2,1'],
  ['(() => { const list = [2, 1]; list.toSorted(); return list.join() })()', '2,1'],
  // Not part of a loop over properties.
  ['(() => { const found = []; for (const name in []) found.push(name); return found.join() })()', ''],
])('%s works in a browser without it', (code, result) => expect(run(`return ${code}`)).toBe(result));

test('URL.canParse works in a browser without it', () => {
  expect(['https://jani.example', 'jani', ''].map((address) => scope.URL.canParse(address))).toEqual([
    true,
    false,
    false,
  ]);
  expect(scope.URL.canParse('/shop', 'https://jani.example')).toBe(true);
});

test('crypto.randomUUID works in a browser without it', () => {
  const drawn = Array.from({ length: 50 }, () => scope.crypto.randomUUID());
  expect(new Set(drawn).size).toBe(50);
  for (const id of drawn)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('AbortSignal.timeout works in a browser without it', () => {
  vi.useFakeTimers();
  const signal = scope.AbortSignal.timeout(1000);
  vi.advanceTimersByTime(999);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(signal.aborted).toBe(true);
  expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
  vi.useRealTimers();
});

test('throwIfAborted works in a browser without it, also without a reason', () => {
  const { throwIfAborted } = scope.AbortSignal.prototype;
  expect(() => throwIfAborted.call({ aborted: false } as AbortSignal)).not.toThrow();
  expect(() => throwIfAborted.call({ aborted: true } as AbortSignal)).toThrow('aborted');
  expect(() => throwIfAborted.call(AbortSignal.abort(new Error('stopped')))).toThrow('stopped');
});
