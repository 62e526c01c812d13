// The service worker of the rider's page: shows the list as it was read last where there is no network (docs/decisions/riders.md).

/**
 * Runs as a service worker, served as text (`ride-worker-route.ts`): it uses nothing from outside its body. It stores one page, the one of
 * the link that was used last, and deletes it at the end of the link.
 */
export function runRideWorker(): void {
  interface FetchEvent extends Event {
    request: Request;
    respondWith(response: Promise<Response>): void;
    waitUntil(work: Promise<unknown>): void;
  }
  const worker = self as unknown as {
    skipWaiting(): Promise<void>;
    clients: { claim(): Promise<void> };
    addEventListener(type: 'install' | 'activate' | 'fetch', listener: (event: FetchEvent) => void): void;
  };
  const cacheName = 'ride-1';
  const endHeader = 'x-ends-at';
  const policyHeader = 'content-security-policy';
  const networkTimeoutMs = 6_000;
  const script = /<script>if\(!window\.isBelowFloor\)[\s\S]*?<\/script>/;
  const secondsLeft = /data-left="(\d+)"/;

  /** The stored page of a link; null without one, and after the end of the link. */
  async function read(path: string): Promise<Response | null> {
    const cache = await caches.open(cacheName);
    const stored = await cache.match(path);
    if (!stored) return null;
    const left = Number(stored.headers.get(endHeader)) - Date.now();
    if (!(left > 0)) {
      await cache.delete(path);
      return null;
    }
    const html = (await stored.text()).replace(
      secondsLeft,
      `data-left="${Math.ceil(left / 1000)}" data-stored=""`,
    );
    return new Response(html, { headers: stored.headers });
  }

  /** Stores the newest list of a link. A part of the page gets the script of the page before. */
  async function store(path: string, response: Response): Promise<void> {
    const cache = await caches.open(cacheName);
    if (response.status === 410) return void (await cache.delete(path));
    if (response.status !== 200) return;
    let html = await response.text();
    let policy = response.headers.get(policyHeader);
    if (!script.test(html)) {
      const before = await cache.match(path);
      const [kept] = script.exec(before ? await before.text() : '') ?? [];
      if (!before || !kept) return;
      html = html.replace('</body>', () => `${kept}</body>`);
      policy = before.headers.get(policyHeader);
    }
    const headers = new Headers({
      'content-type': 'text/html; charset=utf-8',
      'referrer-policy': 'no-referrer',
      [endHeader]: String(Date.now() + Number(secondsLeft.exec(html)?.[1] ?? 0) * 1000),
    });
    if (policy) headers.set(policyHeader, policy);
    await cache.put(path, new Response(html, { headers }));
    for (const other of await cache.keys())
      if (new URL(other.url).pathname !== path) await cache.delete(other);
  }

  async function eraseEnded(): Promise<void> {
    for (const { url } of await (await caches.open(cacheName)).keys()) await read(new URL(url).pathname);
  }

  const withoutPage = () =>
    new Response(
      `<!DOCTYPE html><html lang="en-KE"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>No network</title><style>body{font:18px/1.5 system-ui,sans-serif;margin:1.5rem}button{font:inherit;min-height:3.5rem;width:100%}</style></head>
<body><h1>No network</h1><p>Your list is not on this phone. What you pressed is kept, and sent when you open this page with a network.</p>
<form><button>Try again</button></form></body></html>`,
      { status: 503, headers: { 'content-type': 'text/html; charset=utf-8' } },
    );

  async function open(event: FetchEvent, path: string): Promise<Response> {
    const stored = await read(path);
    const network = fetch(event.request).then((response) => {
      event.waitUntil(store(path, response.clone()));
      return response;
    });
    if (!stored) return network.catch(withoutPage);
    const late = new Promise<Response>((resolve) => setTimeout(() => resolve(stored), networkTimeoutMs));
    const answer = await Promise.race([network.catch(() => stored), late]);
    return answer.status >= 500 ? stored : answer;
  }

  async function follow(event: FetchEvent, path: string): Promise<Response> {
    const response = await fetch(event.request);
    event.waitUntil(store(path, response.clone()));
    return response;
  }

  worker.addEventListener('install', (event) => event.waitUntil(worker.skipWaiting()));
  worker.addEventListener('activate', (event) => event.waitUntil(worker.clients.claim()));
  worker.addEventListener('fetch', (event) => {
    const { pathname, origin } = new URL(event.request.url);
    if (origin !== location.origin || !/^\/ride\/[\w-]+$/.test(pathname)) return;
    if (event.request.mode !== 'navigate') event.respondWith(follow(event, pathname));
    // A form that was posted without the page's script.
    else if (event.request.method === 'GET') event.respondWith(open(event, pathname));
  });
  void eraseEnded();
}
