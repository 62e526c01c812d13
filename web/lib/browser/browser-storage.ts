// The only access to what a browser stores. In private modes, in-app browsers and with blocked cookies the mere access throws a
// SecurityError, and so does writing to a full storage: the shop works without.

/** The used part of the Storage interface. */
export type DeviceStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** The result of an access, or a default where the browser forbids it. On the server too. */
function tryAccess<Value>(access: () => Value | undefined, fallback: Value): Value {
  try {
    return typeof window === 'undefined' ? fallback : (access() ?? fallback);
  } catch {
    return fallback;
  }
}

/** `localStorage`, whose functions may throw; null where it is disabled. */
export const deviceStorage = () => tryAccess<DeviceStorage | null>(() => window.localStorage, null);

/** `sessionStorage`, whose functions may throw; null where it is disabled. */
export const tabStorage = () => tryAccess<DeviceStorage | null>(() => window.sessionStorage, null);

/** @returns a stored text of this device; null if there is none */
export const readStored = (key: string) =>
  tryAccess<string | null>(() => deviceStorage()?.getItem(key), null);

/** Stores a text on this device if possible. */
export const writeStored = (key: string, text: string): void =>
  tryAccess(() => deviceStorage()?.setItem(key, text), undefined);

/** `localStorage`, or the page's memory where the browser does not store. */
export function deviceStorageOrMemory(): DeviceStorage {
  const key = 'jani.storage-check';
  const usable = tryAccess<DeviceStorage | null>(() => {
    const device = deviceStorage();
    device?.setItem(key, key);
    device?.removeItem(key);
    return device ?? undefined;
  }, null);
  if (usable) return usable;
  const memory = new Map<string, string>();
  return {
    getItem: (name) => memory.get(name) ?? null,
    setItem: (name, text) => void memory.set(name, text),
    removeItem: (name) => void memory.delete(name),
  };
}

/**
 * Calls back when another tab has changed a stored text of this device, once this tab reads the new one: messages between tabs can
 * arrive earlier.
 * @returns a function that stops it
 */
export function onStoredElsewhere(key: string, listener: () => void): () => void {
  if (typeof window === 'undefined') return () => {};
  const onStorage = ({ key: changed }: StorageEvent) => {
    // Null: all texts were removed.
    if (changed === key || changed === null) listener();
  };
  addEventListener('storage', onStorage);
  return () => removeEventListener('storage', onStorage);
}

/** All cookies that scripts may read, as in `document.cookie`. */
export const readCookies = () => tryAccess(() => document.cookie, '');

/** Sets a cookie if possible. */
export const writeCookie = (cookie: string): void =>
  tryAccess(() => {
    // biome-ignore lint/suspicious/noDocumentCookie: not every browser supports the Cookie Store API yet
    document.cookie = cookie;
  }, undefined);

/** Service workers; null where they are disabled. */
export const serviceWorkers = () =>
  tryAccess<ServiceWorkerContainer | null>(() => navigator.serviceWorker, null);
