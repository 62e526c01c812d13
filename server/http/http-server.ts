// The HTTP server: reads of tables and cached pages at once, then files, then the routes.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { getRequestListener } from '@hono/node-server';
import type { Backend } from '@jani-juice/backend';
import {
  BoundedRequest,
  BoundedResponse,
  clientAddressOf,
  defaultConnectionLimits,
  establishClientAddress,
  limitConnections,
  PlainResponse,
  readPlain,
  refuseUpgrade,
  sendPlain,
} from '@jani-juice/backend/http';
import { isQueueRejection, visitorAt } from '@jani-juice/backend/limits';
import type { Log } from '../monitoring/log.ts';
import { routeOf } from '../monitoring/metrics.ts';
import { createRefusalLog } from '../monitoring/refused-requests.ts';
import { maxUrlLength } from '../pages/page-request.ts';
import { type Middleware, serveBrowserFiles } from './browser-files.ts';
import { compressAnswer } from './compress-answer.ts';
import { giveRequestId, requestIdOf } from './request-id.ts';
import { addressOf, encodingFor, isRead, signalOf } from './requests.ts';
import { createRoutes, type RouteParts } from './routes.ts';
import { fileHeadersFor, securityHeadersFor, withHeaders } from './security-headers.ts';
import { createPageSender } from './send-page.ts';
import { createTurns } from './turns.ts';

export interface HttpServerOptions extends RouteParts {
  backend: Pick<Backend, 'answer' | 'serves' | 'knowsSender' | 'upgrade'> | null;
  /** The files for browsers: the build's output folder, or a handler that serves them in development. */
  assets: string | Middleware;
  trustedProxies: number;
}

/** Statuses of the services that are logged; others are part of normal use. */
const loggedStatuses = new Set([403, 413, 414, 415, 429]);

/** Answers a request, or leaves it to the next. */
type Step = (request: IncomingMessage, response: ServerResponse, path: string) => boolean;

/** Creates the server, which is not listening yet. */
export function createHttpServer(options: HttpServerOptions): Server {
  const { backend, pages, assets, fairShare, metrics, trustedProxies, publicUrl, log } = options;
  const securityHeaders = securityHeadersFor(publicUrl);
  const files = typeof assets === 'string' ? serveBrowserFiles(assets, fileHeadersFor(publicUrl)) : assets;
  const sendPage = createPageSender(securityHeaders);

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
  const noteStatus = (request: IncomingMessage, status: number) => {
    if (loggedStatuses.has(status)) noteRefusal(request, status, 'service');
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

  const { enter, startSoon } = createTurns({ fairShare, backend, noteRefusal, log });
  const answerByRoute = createRoutes({ ...options, securityHeaders, sendPage, noteRefusal, noteStatus });
  const enterRoutes = (request: IncomingMessage, response: ServerResponse) => {
    giveRequestId(request, response);
    // The turn is over when the answer has begun.
    enter(request, response, () => void answerByRoute(request, response));
  };

  /** A request of a table or procedure. No page has such a URL. */
  const callOfServices: Step = (request, response, path) => {
    if (!backend || !path.startsWith('/rest/v1/')) return false;
    measure(response, () => routeOf(path));
    const address = identifyClient(request);
    // A URL that will be refused waits in the queue of its network.
    const read = path.length <= maxUrlLength ? readPlain(request) : null;
    if (!read) {
      enterRoutes(request, response);
      return true;
    }
    giveRequestId(request, response);
    const answerRead = async () => {
      const answer = await backend.answer(read, signalOf(response));
      noteStatus(request, answer.status);
      if (answer instanceof PlainResponse)
        sendPlain(request, response, await compressAnswer(answer, encodingFor(request)), securityHeaders);
      else await sendWeb(withHeaders(answer, securityHeaders), request, response);
    };
    startSoon(address, response, () => {
      answerRead().catch((error) => {
        const requestId = requestIdOf(request);
        log.error({ requestId, error: (error as Error).stack ?? String(error) }, 'a read failed');
        response.destroy();
      });
    });
    return true;
  };

  const cachedPage: Step = (request, response, path) => {
    const page = isRead(request) && path.length <= maxUrlLength ? pages.find(path) : undefined;
    if (!page?.bodies[encodingFor(request)]) return false;
    metrics.cachedPages += 1;
    // Nothing else of its headers is used.
    const address = clientAddressOf(request, trustedProxies);
    fairShare.recent.note(address);
    startSoon(address, response, () => sendPage(request, response, page));
    return true;
  };

  const fileOrRoute: Step = (request, response, path) => {
    let isFile =
      isRead(request) &&
      path.startsWith('/') &&
      path.length <= maxUrlLength &&
      !backend?.serves(path.split('?', 1)[0] ?? path);
    measure(response, () => (isFile ? 'file' : routeOf(path)));
    const address = identifyClient(request);
    if (!isFile) {
      enterRoutes(request, response);
      return true;
    }
    startSoon(address, response, () =>
      files(request, response, () => {
        isFile = false;
        enterRoutes(request, response);
      }),
    );
    return true;
  };

  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (socket.destroyed) return;
    // Nothing else handles errors of this socket: without a listener, a client disconnect would end the process.
    socket.on('error', () => socket.destroy());
    const address = identifyClient(request);
    if (!backend || !request.url?.startsWith('/realtime/v1/')) {
      refuseUpgrade(socket, 404, '');
      return;
    }
    // Above the bounds of the queue without an answer, which browsers do not show.
    const begin = async () => backend.upgrade(request, socket, head);
    fairShare.entry.run(visitorAt(address), begin, { signal: signalOf(socket) }).catch((error: unknown) => {
      if (!isQueueRejection(error)) log.error({ error: String(error) }, 'a handshake failed');
      socket.destroy();
    });
  };

  const steps = [callOfServices, cachedPage, fileOrRoute];
  const server = createServer(
    { IncomingMessage: BoundedRequest, ServerResponse: BoundedResponse },
    (request, response) => {
      const path = request.url ?? '/';
      logRequest(log, request, response);
      steps.some((step) => step(request, response, path));
    },
  );
  server.maxHeadersCount = 100;
  server.on('connection', fairShare.noteConnection);
  server.on('upgrade', upgrade);
  limitConnections(server, trustedProxies, defaultConnectionLimits, fairShare.unread);
  return server;
}

/** Sends an answer that exists already, such as the stream of an export. */
async function sendWeb(answer: Response, request: IncomingMessage, response: ServerResponse): Promise<void> {
  await getRequestListener(() => answer, { overrideGlobalObjects: false })(request, response);
}

function logRequest(log: Log, request: IncomingMessage, response: ServerResponse): void {
  if (!log.isLevelEnabled('debug')) return;
  const started = performance.now();
  response.once('finish', () => {
    const ms = Math.round(performance.now() - started);
    const { method, url: path } = request;
    log.debug({ requestId: requestIdOf(request), method, path, status: response.statusCode, ms }, 'request');
  });
}
