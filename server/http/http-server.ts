// The HTTP server: cached pages from memory, then files, then the services, then rendering.
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { Duplex } from 'node:stream';
import { getRequestListener, RequestError } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Backend } from '@jani-juice/backend';
import {
  BoundedRequest,
  BoundedResponse,
  clientAddressOf,
  defaultConnectionLimits,
  establishClientAddress,
  isClientDisconnect,
  limitConnections,
  type PlainRequest,
  PlainResponse,
  rawHeader,
  readPlain,
  refuseUpgrade,
  sendPlain,
} from '@jani-juice/backend/http';
import {
  ClientDisconnected,
  type FairShare,
  isQueueRejection,
  networksOf,
  partners,
  QueueFull,
  queueRejectionStatus,
  type Turn,
  visitorAt,
} from '@jani-juice/backend/limits';
import { isSameSecret } from '@jani-juice/backend/settings';
import type { Log } from '../monitoring/log.ts';
import { type Metrics, routeOf } from '../monitoring/metrics.ts';
import { createRefusalLog } from '../monitoring/refused-requests.ts';
import { type BuildFiles, respondWithFile } from '../pages/build-files/build-files.ts';
import { type CachedPage, type Encoding, encodePage, type PageCache, pageKey } from '../pages/page-cache.ts';
import type { PageRenderer } from '../pages/page-renderer.ts';
import { maxUrlLength, readPageRequest } from '../pages/page-request.ts';
import type { PageViews } from '../pages/page-views.ts';
import type { ShareImages } from '../pages/share-images/share-images.ts';
import { type Middleware, serveBrowserFiles } from './browser-files.ts';
import { giveRequestId, requestIdHeader, requestIdOf } from './request-id.ts';

export interface HttpServerOptions {
  backend: Pick<Backend, 'answer' | 'serves' | 'knowsSender' | 'upgrade'> | null;
  pages: PageCache;
  renderPage: PageRenderer;
  /** The files for browsers: the build's output folder, or a handler that serves them in development. */
  assets: string | Middleware;
  /** The files of other builds. */
  buildFiles?: BuildFiles;
  /** Name of the release of this process, with which `/readyz` answers. */
  release?: string;
  /** Receives reports of page views, at `/api/event`. */
  pageViews: Pick<PageViews, 'fetch'>;
  /** Images for shared links of products. */
  shareImages?: ShareImages;
  /** The fair queues of requests. */
  fairShare: FairShare;
  isReady: () => Promise<boolean>;
  /** Services of a hosted project that do not answer, for `/readyz`. Absent: no hosted project. */
  unavailableServices?: () => Promise<string[]>;
  /** Metrics, which GET /metrics returns to a caller with the secret key. */
  metrics: Metrics;
  secretKey: string;
  trustedProxies: number;
  /** Public URL of the shop. */
  publicUrl: string;
  log: Log;
}

/** Cost of rendering a page; 1 is a plain read of a table. */
const pageCost = 10;
/** Statuses of the services that are logged; others are part of normal use. */
const loggedStatuses = new Set([403, 413, 414, 415, 429]);
const year = 365 * 24 * 60 * 60;

/** Creates the server, which is not listening yet. */
export function createHttpServer(options: HttpServerOptions): Server {
  const {
    backend,
    pages,
    renderPage,
    assets,
    pageViews,
    isReady,
    unavailableServices = async () => [],
    trustedProxies,
    publicUrl,
    log,
  } = options;
  const { buildFiles, release, shareImages, fairShare, metrics, secretKey } = options;
  const securityHeaders: Record<string, string> = {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'strict-origin-when-cross-origin',
    'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=()',
    'cross-origin-opener-policy': 'same-origin',
    ...(publicUrl.startsWith('https:')
      ? { 'strict-transport-security': `max-age=${year}; includeSubDomains` }
      : {}),
  };
  // Files do not need the headers of pages, and phones pay for every byte.
  const { 'x-content-type-options': nosniff = '', 'strict-transport-security': strict } = securityHeaders;
  const files: Middleware =
    typeof assets === 'function'
      ? assets
      : serveBrowserFiles(assets, {
          'x-content-type-options': nosniff,
          ...(strict ? { 'strict-transport-security': strict } : {}),
        });

  // The headers of a page per encoding, cached because most responses are the same few pages.
  const finished = new WeakMap<Buffer, string[]>();
  const headersOf = (page: CachedPage, encoding: Encoding, body: Buffer): string[] => {
    const ready = finished.get(body) ?? finishHeaders(page, encoding, body.length, securityHeaders);
    finished.set(body, ready);
    return ready;
  };

  const sendPage = (request: IncomingMessage, response: ServerResponse, page: CachedPage) => {
    const encoding = encodingFor(request);
    const body = page.bodies[encoding];
    if (!body) throw new Error(`the page has no body in the encoding ${encoding}`);
    const headers = headersOf(page, encoding, body);
    if (page.status === 200 && rawHeader(request, 'if-none-match') === page.etag) {
      // A 304 has no body, so the stored length does not apply.
      response.writeHead(304, headers.slice(0, -2)).end();
      return;
    }
    // A page without its data, because the database is not available.
    response.writeHead(page.status, page.status === 503 ? [...headers, 'retry-after', '5'] : headers);
    response.end(request.method === 'HEAD' ? undefined : body);
  };

  const logRefusal = createRefusalLog({ log });
  const noteRefusal = (request: IncomingMessage, status: number, reason: string) =>
    logRefusal({
      method: request.method ?? '',
      path: request.url ?? '',
      status,
      address: addressOf(request),
      reason,
      requestId: requestIdOf(request),
    });

  const answerPage = async (request: IncomingMessage, response: ServerResponse, webRequest: Request) => {
    const key = isRead(request) ? pageKey(new URL(webRequest.url)) : null;
    // A cached page is rendered from its key only, without any data of the first request.
    const client = visitorAt(addressOf(request));
    const signal = signalOf(response);
    const encoding = encodingFor(request);
    const render = async (turn: Turn, release: () => void) => {
      if (key)
        return pages.getOrRender(key, encoding, () => {
          metrics.renderedPages += 1;
          const headers = { [requestIdHeader]: requestIdOf(request) ?? '' };
          return renderPage(new Request(new URL(key, publicUrl), { headers }), 'cached');
        });
      // A function may wait for M-PESA, so the page frees its place in the queue, and the memory of an answer that is not made yet.
      const page = await renderPage(webRequest, 'once', (call) => {
        release();
        return turn.pause(() => fairShare.outbound.run(client, call, { signal }));
      });
      await encodePage(page, encoding);
      return page;
    };
    const renderWithinMemory = async (turn: Turn) => {
      const release = fairShare.unread.reserve(networksOf(addressOf(request)));
      return render(turn, release).finally(release);
    };
    const page = await fairShare.work.run(client, renderWithinMemory, { cost: pageCost, signal });
    sendPage(request, response, page);
  };

  const failed = (error: unknown, requestId?: string) => {
    log.error({ requestId, error: (error as Error).stack ?? String(error) }, 'a page could not be rendered');
    const reference = requestId ? `Reference: ${requestId}\n` : '';
    return new Response(`Something went wrong on our side. Please try again.\n${reference}`, {
      status: 500,
    });
  };

  /** The response to a page or image request, or the error of a full queue. */
  const answerOrReject = async (answer: () => Promise<Response>, request: IncomingMessage) => {
    try {
      return await answer();
    } catch (error) {
      if (error instanceof ClientDisconnected) return new Response(null, { status: 503 });
      if (!(error instanceof QueueFull)) {
        if (isClientDisconnect(error)) throw error;
        return failed(error, requestIdOf(request));
      }
      const status = error.isOwn ? 429 : 503;
      noteRefusal(request, status, 'queue full');
      return new Response('Many people are here right now. Please try again in a moment.\n', {
        status,
        headers: { ...securityHeaders, 'retry-after': '5' },
      });
    }
  };

  const answerMetrics = async ({ headers }: Request) => {
    const [, token = ''] = /^bearer (\S+)$/i.exec(headers.get('authorization') ?? '') ?? [];
    if (!isSameSecret(token, secretKey)) {
      return new Response('The secret key is needed, as a bearer token.\n', {
        status: 401,
        headers: { 'www-authenticate': 'Bearer' },
      });
    }
    return new Response(await metrics.render(), {
      headers: { 'content-type': metrics.contentType, 'cache-control': 'no-store' },
    });
  };

  let canFindFiles = true;
  /** A file that this build does not have. No page has such a URL, so that nothing is rendered for it. */
  const answerFile = async (pathname: string, request: IncomingMessage, signal: () => AbortSignal) => {
    const file = await buildFiles?.find(pathname).catch((error: unknown) => {
      // Once for an outage, not for every request.
      if (canFindFiles) log.error({ error: String(error) }, 'the files of other builds could not be read');
      return undefined;
    });
    canFindFiles = file !== undefined;
    if (!file) {
      const status = file === null ? 404 : 503;
      return new Response(`${STATUS_CODES[status]}\n`, { status, headers: { 'cache-control': 'no-store' } });
    }
    const acceptsBrotli = encodingFor(request) === 'br';
    return fairShare.work.run(
      visitorAt(addressOf(request)),
      () => respondWithFile(pathname, file, acceptsBrotli),
      {
        signal,
      },
    );
  };

  const logStatus = (request: IncomingMessage, status: number) => {
    if (loggedStatuses.has(status)) noteRefusal(request, status, 'service');
  };

  // Streamed responses are sent like all other web responses.
  const streams = new WeakMap<object, Response>();
  const answerPlain = async (request: IncomingMessage, response: ServerResponse, read: PlainRequest) => {
    const answer = await backend?.answer(read, signalOf(response));
    if (answer) logStatus(request, answer.status);
    if (answer instanceof PlainResponse) {
      sendPlain(request, response, answer, securityHeaders);
      return;
    }
    if (answer) streams.set(request, answer);
    await web(request, response);
  };

  const web = getRequestListener(
    async (webRequest, { incoming, outgoing }) => {
      const stream = streams.get(incoming);
      if (stream) return withHeaders(stream, securityHeaders);
      const { pathname } = new URL(webRequest.url);
      if (pathname === '/healthz') return new Response('ok\n');
      if (pathname === '/readyz') {
        const headers: Record<string, string> = release ? { 'x-release': release } : {};
        const [ready, missing] = await Promise.all([isReady(), unavailableServices()]);
        if (!ready) {
          return new Response('not ready\n', { status: 503, headers: { ...headers, 'retry-after': '5' } });
        }
        // The storefront sells without them, so a proxy must go on sending visitors here.
        const text = missing.length > 0 ? `ready, but not available: ${missing.join(', ')}\n` : 'ready\n';
        return new Response(text, { headers });
      }
      if (pathname === '/metrics') return answerMetrics(webRequest);
      if (pathname === '/api/event') return withHeaders(await pageViews.fetch(webRequest), securityHeaders);
      if (shareImages?.serves(pathname)) {
        const client = visitorAt(addressOf(incoming as IncomingMessage));
        const signal = signalOf(outgoing as ServerResponse);
        const inShare = <T>(read: () => Promise<T>) => fairShare.work.run(client, read, { cost: 2, signal });
        const fetchImage = () => shareImages.fetch(webRequest, client, inShare);
        return withHeaders(await answerOrReject(fetchImage, incoming as IncomingMessage), securityHeaders);
      }
      if (buildFiles?.serves(pathname) && isRead(incoming as IncomingMessage)) {
        const answer = () =>
          answerFile(pathname, incoming as IncomingMessage, signalOf(outgoing as ServerResponse));
        return withHeaders(await answerOrReject(answer, incoming as IncomingMessage), securityHeaders);
      }
      if (backend?.serves(pathname)) {
        const answer = await backend.answer(webRequest, signalOf(outgoing as ServerResponse));
        logStatus(incoming as IncomingMessage, answer.status);
        const headers = isPartlyRead(incoming as IncomingMessage)
          ? { ...securityHeaders, connection: 'close' }
          : securityHeaders;
        if (!(answer instanceof PlainResponse)) return withHeaders(answer, headers);
        sendPlain(incoming as IncomingMessage, outgoing as ServerResponse, answer, headers);
        return RESPONSE_ALREADY_SENT;
      }
      const pageRequest = await readPageRequest(webRequest, publicUrl);
      if (!(pageRequest instanceof Request)) {
        const { status, text, reason, headers } = pageRequest;
        noteRefusal(incoming as IncomingMessage, status, reason);
        return new Response(text, { status, headers: { ...securityHeaders, ...headers } });
      }
      const answer = async () => {
        await answerPage(incoming as IncomingMessage, outgoing as ServerResponse, pageRequest);
        return RESPONSE_ALREADY_SENT;
      };
      return answerOrReject(answer, incoming as IncomingMessage);
    },
    {
      overrideGlobalObjects: false,
      errorHandler: (error) => {
        // No host, or an invalid URL: an error of the client, which is not logged.
        if (error instanceof RequestError || isClientDisconnect(error)) {
          return new Response('Bad request\n', { status: 400 });
        }
        return failed(error);
      },
    },
  );

  /** Handles a request in its client's share of the queue. */
  const enter = (request: IncomingMessage, response: ServerResponse) => {
    const begin = async () => void web(request, response);
    const isPartner = backend?.knowsSender(request.url?.split('?', 1)[0] ?? '/') ?? false;
    const client = isPartner ? partners : visitorAt(addressOf(request));
    fairShare.entry.run(client, begin, { signal: signalOf(response) }).catch((error) => {
      if (error instanceof ClientDisconnected) return;
      const status = queueRejectionStatus(error);
      noteRefusal(request, status, 'queue full');
      response.writeHead(status, { 'retry-after': '5', connection: 'close', 'content-length': 0 }).end();
    });
  };

  /** Starts a request that need not wait in `entry`; in its client's share while there are too many. */
  const startInShare = (address: string, response: ServerResponse, answer: () => void) => {
    if (fairShare.startsAtOnce(address)) {
      answer();
      return;
    }
    fairShare.direct
      .run(visitorAt(address), async () => answer(), { signal: signalOf(response) })
      .catch((error: unknown) => {
        if (!isClientDisconnect(error)) log.error({ error: String(error) }, 'a cached answer failed');
        response.destroy();
      });
  };

  const measure = (response: ServerResponse, route: () => string) => {
    const begun = performance.now();
    response.once('close', () =>
      metrics.observeRequest(route(), response.statusCode, (performance.now() - begun) / 1000),
    );
  };
  const identifyClient = (request: IncomingMessage): string => {
    const address = establishClientAddress(request, trustedProxies);
    fairShare.recent.note(address);
    return address;
  };

  const server = createServer(
    { IncomingMessage: BoundedRequest, ServerResponse: BoundedResponse },
    (request, response) => {
      const path = request.url ?? '/';
      if (log.isLevelEnabled('debug')) {
        const started = performance.now();
        response.once('finish', () => {
          const ms = Math.round(performance.now() - started);
          log.debug(
            {
              requestId: requestIdOf(request),
              method: request.method,
              path,
              status: response.statusCode,
              ms,
            },
            'request',
          );
        });
      }
      // No page has such a URL.
      if (backend && path.startsWith('/rest/v1/')) {
        measure(response, () => routeOf(path));
        const address = identifyClient(request);
        giveRequestId(request, response);
        // A URL that will be refused waits in the queue of its network.
        const read = path.length <= maxUrlLength ? readPlain(request) : null;
        if (read) {
          startInShare(address, response, () => {
            answerPlain(request, response, read).catch((error) => {
              const requestId = requestIdOf(request);
              log.error({ requestId, error: (error as Error).stack ?? String(error) }, 'a read failed');
              response.destroy();
            });
          });
        } else enter(request, response);
        return;
      }
      const page = isRead(request) && path.length <= maxUrlLength ? pages.find(path) : undefined;
      if (page?.bodies[encodingFor(request)]) {
        metrics.cachedPages += 1;
        // Nothing else of its headers is used.
        const address = clientAddressOf(request, trustedProxies);
        fairShare.recent.note(address);
        startInShare(address, response, () => sendPage(request, response, page));
        return;
      }
      let isFile = false;
      measure(response, () => (isFile ? 'file' : routeOf(path)));
      const address = identifyClient(request);
      if (isRead(request) && path.startsWith('/') && path.length <= maxUrlLength) {
        if (!backend?.serves(path.split('?', 1)[0] ?? path)) {
          isFile = true;
          startInShare(address, response, () =>
            files(request, response, () => {
              isFile = false;
              giveRequestId(request, response);
              enter(request, response);
            }),
          );
          return;
        }
      }
      giveRequestId(request, response);
      enter(request, response);
    },
  );
  server.maxHeadersCount = 100;
  server.on('connection', fairShare.noteConnection);
  server.on('upgrade', (request, socket, head) => {
    if (socket.destroyed) return;
    // Nothing else handles errors of this socket: without a listener, a client disconnect would end the process.
    socket.on('error', () => socket.destroy());
    identifyClient(request);
    if (!backend || !request.url?.startsWith('/realtime/v1/')) {
      refuseUpgrade(socket, 404, '');
      return;
    }
    const upgrade = async () => backend.upgrade(request, socket, head);
    // Above the bounds of the queue without an answer, which browsers do not show.
    fairShare.entry
      .run(visitorAt(addressOf(request)), upgrade, { signal: signalOf(socket) })
      .catch((error: unknown) => {
        if (!isQueueRejection(error)) log.error({ error: String(error) }, 'a handshake failed');
        socket.destroy();
      });
  });
  limitConnections(server, trustedProxies, defaultConnectionLimits, fairShare.unread);
  return server;
}

function finishHeaders(
  page: CachedPage,
  encoding: Encoding,
  length: number,
  extra: Record<string, string>,
): string[] {
  const headers: Record<string, string> = { ...extra, ...page.headers, etag: page.etag };
  headers.vary = headers.vary ? `${headers.vary}, accept-encoding` : 'accept-encoding';
  if (encoding !== 'identity') headers['content-encoding'] = encoding;
  // Last on purpose: an answer without a body leaves it out.
  headers['content-length'] = String(length);
  return Object.entries(headers).flat();
}

function isRead(request: IncomingMessage): boolean {
  return request.method === 'GET' || request.method === 'HEAD';
}

/**
 * Whether a body was read in part only. Its connection must then be closed with a header, or a proxy would send the next
 * customer's request on it.
 */
function isPartlyRead(request: IncomingMessage): boolean {
  return request.readableDidRead && !request.complete;
}

/** The client's IP address, valid after `establishClientAddress`. */
function addressOf({ headers }: IncomingMessage): string {
  return String(headers['x-forwarded-for'] ?? '');
}

/** Returns a signal that is aborted when the client disconnects before its response is complete. */
function signalOf(response: ServerResponse | Duplex): () => AbortSignal {
  return () => {
    const disconnected = new AbortController();
    // Most responses are finished by then. A reason of ours, because the default one is created with a stack trace.
    const onClose = () => {
      if (!response.writableFinished) disconnected.abort(new ClientDisconnected());
    };
    if (response.destroyed) onClose();
    else response.once('close', onClose);
    return disconnected.signal;
  };
}

function encodingFor(request: IncomingMessage): Encoding {
  return encodings.of(rawHeader(request, 'accept-encoding') ?? '');
}

/** The encoding for an Accept-Encoding header, cached because browsers send the same few values. */
const encodings = {
  known: new Map<string, Encoding>(),
  of(accepted: string): Encoding {
    const cached = this.known.get(accepted);
    if (cached) return cached;
    const best = bestEncoding(accepted);
    if (this.known.size < 100 && accepted.length < 200) this.known.set(accepted, best);
    return best;
  },
};

function bestEncoding(accepted: string): Encoding {
  if (/\bbr\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(accepted)) return 'br';
  if (/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/.test(accepted)) return 'gzip';
  return 'identity';
}

function withHeaders(response: Response, extra: Record<string, string>): Response {
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(extra)) if (!headers.has(name)) headers.set(name, value);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
