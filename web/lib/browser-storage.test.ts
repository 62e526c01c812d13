import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import {
  deviceStorage,
  deviceStorageOrMemory,
  readCookies,
  readStored,
  serviceWorkers,
  tabStorage,
  writeCookie,
  writeStored,
} from './browser-storage.ts';

afterEach(() => vi.unstubAllGlobals());

/** An object whose every property throws, as in private modes. */
const forbidden = new Proxy(
  {},
  {
    get() {
      throw new DOMException('Access is denied for this document.', 'SecurityError');
    },
    set() {
      throw new DOMException('Access is denied for this document.', 'SecurityError');
    },
  },
);

test.each([
  ['localStorage', deviceStorage, null],
  ['sessionStorage', tabStorage, null],
  ['a stored text', () => readStored('key'), null],
  ['writing a text', () => writeStored('key', 'text'), undefined],
  ['reading cookies', readCookies, ''],
  ['writing a cookie', () => writeCookie('a=b'), undefined],
  ['service workers', serviceWorkers, null],
])('%s that the browser forbids is handled', (_, access, result) => {
  for (const name of ['window', 'document', 'navigator']) vi.stubGlobal(name, forbidden);
  expect(access()).toBe(result);
});

test('a full storage is handled, and the memory of the page can replace it', () => {
  vi.stubGlobal('window', {
    localStorage: {
      setItem() {
        throw new DOMException('The quota has been exceeded.', 'QuotaExceededError');
      },
    },
  });
  expect(writeStored('key', 'text')).toBeUndefined();
  const memory = deviceStorageOrMemory();
  memory.setItem('key', 'text');
  expect(memory.getItem('key')).toBe('text');
  memory.removeItem('key');
  expect(memory.getItem('key')).toBeNull();
});

const web = join(import.meta.dirname, '..');
/** Inline script of the first paint, which imports nothing; the worker, whose own scope has caches; tests. */
const exceptions =
  /^(ui\/early-taps\.tsx|lib\/browser-storage\.ts|service-worker\/.*|testing\/.*|.*\.test\.tsx?)$/;
const access =
  /\b(?:localStorage|sessionStorage|indexedDB|cookieStore)\b(?!`)|\bdocument\.cookie\b(?!`)|\bcaches\.|navigator\.serviceWorker/;

test('no other file accesses what a browser stores', () => {
  const files = readdirSync(web, { recursive: true, encoding: 'utf8' }).filter(
    (file) => /\.tsx?$/.test(file) && !exceptions.test(file),
  );
  expect(files.filter((file) => access.test(readFileSync(join(web, file), 'utf8')))).toEqual([]);
});
