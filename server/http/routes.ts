// What answers a URL, for all requests but those that the server answers from memory or from a file.
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { getRequestListener, RequestError } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Backend } from '@jani-juice/backend';
import { isClientDisconnect, PlainResponse, sendPlain } from '@jani-juice/backend/http';
import {
  ClientDisconnected,
  type FairShare,
  networksOf,
  QueueFull,
  type Turn,
  visitorAt,
} from '@jani-juice/backend/limits';
import { isSameSecret } from '@jani-juice/backend/settings';
import type { Log } from '../monitoring/log.ts';
import type { Metrics } from '../monitoring/metrics.ts';
import { type BuildFiles, respondWithFile } from '../pages/build-files/build-files.ts';
import { encodePage, type PageCache, pageKey } from '../pages/page-cache.ts';
import type { PageRenderer } from '../pages/page-renderer.ts';
import { readPageRequest } from '../pages/page-request.ts';
import type { PageViews } from '../pages/page-views.ts';
import type { ShareImages } from '../pages/share-images/share-images.ts';
import { compressAnswer } from './compress-answer.ts';
import { requestIdHeader, requestIdOf } from './request-id.ts';
import { addressOf, encodingFor, isPartlyRead, isRead, signalOf } from './requests.ts';
import { withHeaders } from './security-headers.ts';
import type { SendPage } from './send-page.ts';
import type { StaffRoutes } from './staff-routes.ts';

/** Cost of rendering a page; 1 is a plain read of a table. */
const pageCost = 10;
/** Cost of a share image. */
const imageCost = 2;

/** What the routes answer with. */
export interface RouteParts {
  backend: Pick<Backend, 'answer' | 'serves'> | null;
  pages: PageCache;
  renderPage: PageRenderer;
  /** The files of other builds. */
  buildFiles?: BuildFiles;
  /** Name of the release of this process, with which `/readyz` answers. */
  release?: string;
  /** Receives reports of page views, at `/api/event`. */
  pageViews: Pick<PageViews, 'fetch'>;
  /** Version and backups, at `/api/staff/`. */
  staffRoutes?: StaffRoutes;
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
  /** Public URL of the shop. */
  publicUrl: string;
  log: Log;
}

interface RouteOptions extends RouteParts {
  securityHeaders: Readonly<Record<string, string>>;
  sendPage: SendPage;
  noteRefusal: (request: IncomingMessage, status: number, reason: string) => void;
  noteStatus: (request: IncomingMessage, status: number) => void;
}

interface Visit {
  request: Request;
  pathname: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  signal: () => AbortSignal;
}

interface Route {
  serves: (visit: Visit) => boolean;
  answer: (visit: Visit) => Promise<Response>;
}

/** The visitor in the queues. */
const clientOf = (incoming: IncomingMessage) => visitorAt(addressOf(incoming));

/** Answers requests by the first route that serves their URL; a page is the last. */
export function createRoutes(
  options: RouteOptions,
): (request: IncomingMessage, response: ServerResponse) => Promise<unknown> {
  const { backend, pages, pageViews, shareImages, buildFiles, staffRoutes, fairShare, metrics, log } =
    options;
  const { securityHeaders, sendPage, noteRefusal, noteStatus, publicUrl } = options;

  const failed = (error: unknown, requestId?: string) => {
    log.error({ requestId, error: (error as Error).stack ?? String(error) }, 'a page could not be rendered');
    const reference = requestId ? `Reference: ${requestId}\n` : '';
    return new Response(`Something went wrong on our side. Please try again.\n${reference}`, { status: 500 });
  };

  /** The response to a page, an image or a file, or the error of a full queue. */
  const inQueue =
    (answer: Route['answer']): Route['answer'] =>
    async (visit) => {
      try {
        return await answer(visit);
      } catch (error) {
        if (error instanceof ClientDisconnected) return new Response(null, { status: 503 });
        if (!(error instanceof QueueFull)) {
          if (isClientDisconnect(error)) throw error;
          return failed(error, requestIdOf(visit.incoming));
        }
        const status = error.isOwn ? 429 : 503;
        noteRefusal(visit.incoming, status, 'queue full');
        return new Response('Many people are here right now. Please try again in a moment.\n', {
          status,
          headers: { ...securityHeaders, 'retry-after': '5' },
        });
      }
    };

  const at = (path: string, answer: Route['answer']): Route => ({
    serves: ({ pathname }) => pathname === path,
    answer,
  });

  const readiness: Route['answer'] = async () => {
    const headers: Record<string, string> = options.release ? { 'x-release': options.release } : {};
    const [ready, missing] = await Promise.all([options.isReady(), options.unavailableServices?.() ?? []]);
    if (!ready) {
      return new Response('not ready\n', { status: 503, headers: { ...headers, 'retry-after': '5' } });
    }
    // The storefront sells without them, so a proxy must go on sending visitors here.
    const text = missing.length > 0 ? `ready, but not available: ${missing.join(', ')}\n` : 'ready\n';
    return new Response(text, { headers });
  };

  const metricsFor: Route['answer'] = async ({ request: { headers } }) => {
    const [, token = ''] = /^bearer (\S+)$/i.exec(headers.get('authorization') ?? '') ?? [];
    if (!isSameSecret(token, options.secretKey)) {
      return new Response('The secret key is needed, as a bearer token.\n', {
        status: 401,
        headers: { 'www-authenticate': 'Bearer' },
      });
    }
    return new Response(await metrics.render(), {
      headers: { 'content-type': metrics.contentType, 'cache-control': 'no-store' },
    });
  };

  const shareImage: Route = {
    serves: ({ pathname }) => shareImages?.serves(pathname) ?? false,
    answer: inQueue(async ({ request, incoming, signal }) => {
      const client = clientOf(incoming);
      const inShare = <T>(read: () => Promise<T>) =>
        fairShare.work.run(client, read, { cost: imageCost, signal });
      return (await shareImages?.fetch(request, client, inShare)) ?? new Response(null, { status: 404 });
    }),
  };

  let canFindFiles = true;
  /** A file that this build does not have. No page has such a URL, so that nothing is rendered for it. */
  const fileOfOtherBuild: Route = {
    serves: ({ pathname, incoming }) => (buildFiles?.serves(pathname) ?? false) && isRead(incoming),
    answer: inQueue(async ({ pathname, incoming, signal }) => {
      const file = await buildFiles?.find(pathname).catch((error: unknown) => {
        // Once for an outage, not for every request.
        if (canFindFiles) log.error({ error: String(error) }, 'the files of other builds could not be read');
        return undefined;
      });
      canFindFiles = file !== undefined;
      if (!file) {
        const status = file === null ? 404 : 503;
        return new Response(`${STATUS_CODES[status]}\n`, {
          status,
          headers: { 'cache-control': 'no-store' },
        });
      }
      const acceptsBrotli = encodingFor(incoming) === 'br';
      const respond = () => respondWithFile(pathname, file, acceptsBrotli);
      return fairShare.work.run(clientOf(incoming), respond, { signal });
    }),
  };

  const services: Route = {
    serves: ({ pathname }) => backend?.serves(pathname) ?? false,
    async answer({ request, incoming, outgoing, signal }) {
      const answer = (await backend?.answer(request, signal)) ?? new Response(null, { status: 404 });
      noteStatus(incoming, answer.status);
      const headers = isPartlyRead(incoming) ? { ...securityHeaders, connection: 'close' } : securityHeaders;
      if (!(answer instanceof PlainResponse)) return withHeaders(answer, headers);
      sendPlain(incoming, outgoing, await compressAnswer(answer, encodingFor(incoming)), headers);
      return RESPONSE_ALREADY_SENT;
    },
  };

  /** A page from the cache, or rendered for this request. */
  const sendRendered = inQueue(async ({ request, incoming, outgoing, signal }) => {
    const client = clientOf(incoming);
    const key = isRead(incoming) ? pageKey(new URL(request.url)) : null;
    const encoding = encodingFor(incoming);
    const render = async (turn: Turn, release: () => void) => {
      if (key)
        // A cached page is rendered from its key only, without any data of the first request.
        return pages.getOrRender(key, encoding, () => {
          metrics.renderedPages += 1;
          const headers = { [requestIdHeader]: requestIdOf(incoming) ?? '' };
          return options.renderPage(new Request(new URL(key, publicUrl), { headers }), 'cached');
        });
      // A function may wait for M-PESA, so the page frees its place in the queue, and the memory of an answer that is not made yet.
      const page = await options.renderPage(request, 'once', (call) => {
        release();
        return turn.pause(() => fairShare.outbound.run(client, call, { signal }));
      });
      await encodePage(page, encoding);
      return page;
    };
    const renderWithinMemory = async (turn: Turn) => {
      const release = fairShare.unread.reserve(networksOf(addressOf(incoming)));
      return render(turn, release).finally(release);
    };
    const rendered = await fairShare.work.run(client, renderWithinMemory, { cost: pageCost, signal });
    sendPage(incoming, outgoing, rendered);
    return RESPONSE_ALREADY_SENT;
  });
  const page: Route = {
    serves: () => true,
    async answer(visit) {
      const request = await readPageRequest(visit.request, publicUrl);
      if (request instanceof Request) return sendRendered({ ...visit, request });
      const { status, text, reason, headers } = request;
      noteRefusal(visit.incoming, status, reason);
      return new Response(text, { status, headers: { ...securityHeaders, ...headers } });
    },
  };

  const secured = (route: Route): Route => ({
    ...route,
    answer: async (visit) => withHeaders(await route.answer(visit), securityHeaders),
  });
  const routes: Route[] = [
    at('/healthz', async () => new Response('ok\n')),
    at('/readyz', readiness),
    at('/metrics', metricsFor),
    secured(at('/api/event', ({ request }) => pageViews.fetch(request))),
    ...(staffRoutes
      ? [
          secured({
            serves: ({ pathname }) => staffRoutes.serves(pathname),
            answer: ({ request }) => staffRoutes.fetch(request),
          }),
        ]
      : []),
    secured(shareImage),
    secured(fileOfOtherBuild),
    services,
    page,
  ];

  return getRequestListener(
    async (request, environment) => {
      const incoming = environment.incoming as IncomingMessage;
      const outgoing = environment.outgoing as ServerResponse;
      const { pathname } = new URL(request.url);
      const visit: Visit = { request, pathname, incoming, outgoing, signal: signalOf(outgoing) };
      const route = routes.find(({ serves }) => serves(visit)) ?? page;
      return route.answer(visit);
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
}
