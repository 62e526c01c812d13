import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import {
  deviceStorage,
  deviceStorageOrMemory,
  onStoredElsewhere,
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

test.each([
  ['the text', 'key', 1],
  ['all texts, by removing them', null, 1],
  ['another text', 'other', 0],
])('another tab changes %s (%s): the listener is called %i times', (_, key, calls) => {
  const page = new EventTarget();
  vi.stubGlobal('window', page);
  vi.stubGlobal('addEventListener', page.addEventListener.bind(page));
  vi.stubGlobal('removeEventListener', page.removeEventListener.bind(page));
  const change = () => page.dispatchEvent(Object.assign(new Event('storage'), { key }));
  const listener = vi.fn();
  const stop = onStoredElsewhere('key', listener);
  change();
  stop();
  change();
  expect(listener).toHaveBeenCalledTimes(calls);
});

const web = join(import.meta.dirname, '../..');
/** Inline scripts, which run before anything is imported; the scripts of the rider's page, which import nothing; the worker, whose own scope has caches; tests. */
const exceptions =
  /^(ui\/early-taps\.tsx|admin\/data\/early-requests\.tsx|lib\/browser\/browser-storage\.ts|rider\/ride-(?:script|worker)\.ts|service-worker\/.*|testing\/.*|.*\.test\.tsx?)$/;
const access =
  /\b(?:localStorage|sessionStorage|indexedDB|cookieStore)\b(?!`)|\bdocument\.cookie\b(?!`)|\bcaches\.|navigator\.serviceWorker/;

test('no other file accesses what a browser stores', () => {
  const files = readdirSync(web, { recursive: true, encoding: 'utf8' }).filter(
    (file) => /\.tsx?$/.test(file) && !exceptions.test(file),
  );
  expect(files.filter((file) => access.test(readFileSync(join(web, file), 'utf8')))).toEqual([]);
});
