// Adds the functions that the scripts use and that browsers of the floor lack. Libraries use them too, so this file is the first that
// runs. The browser story `browser-floor` finds every function that is missing here.

/** A method of an instance or class, in this browser or from here. */
function add(owner: object, name: string, method: unknown): void {
  if (!(name in owner))
    Object.defineProperty(owner, name, { value: method, writable: true, configurable: true });
}

function at<Item>(this: ArrayLike<Item>, index: number): Item | undefined {
  const whole = Math.trunc(index) || 0;
  return this[whole < 0 ? this.length + whole : whole];
}

/** Adds what is missing. */
export function addNewerApis(scope: typeof globalThis = globalThis): void {
  for (const { prototype } of [scope.Array, scope.String, Object.getPrototypeOf(scope.Uint8Array)]) {
    add(prototype, 'at', at);
  }
  add(
    scope.Object,
    'hasOwn',
    (owner: object, name: PropertyKey) => Object.getOwnPropertyDescriptor(owner, name) !== undefined,
  );
  add(scope.Array.prototype, 'toSorted', function toSorted<
    Item,
  >(this: Item[], compare?: (one: Item, other: Item) => number) {
    return [...this].sort(compare);
  });
  add(scope.URL, 'canParse', (address: string, base?: string) => {
    try {
      return Boolean(new URL(address, base));
    } catch {
      return false;
    }
  });
  add(scope.AbortSignal, 'timeout', (ms: number) => {
    const controller = new AbortController();
    setTimeout(() => abort(controller, new DOMException('The operation timed out.', 'TimeoutError')), ms);
    return controller.signal;
  });
  add(scope.AbortSignal.prototype, 'throwIfAborted', function throwIfAborted(this: AbortSignal) {
    if (this.aborted) throw this.reason ?? new DOMException('The operation was aborted.', 'AbortError');
  });
  // Also missing on plain http.
  if (scope.crypto) add(scope.crypto, 'randomUUID', () => drawUuid(scope.crypto));
}

/** Older browsers ignore the reason, and `fetch` then fails with an AbortError. */
const abort = (controller: AbortController, reason: unknown) => controller.abort(reason);

function drawUuid(source: Crypto): string {
  const bytes = source.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

addNewerApis();
