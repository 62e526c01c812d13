// Proxy from M-PESA to any running shop process, at one public URL. It can drop, duplicate and delay callbacks.
import { createServer, request as send } from 'node:http';
import { phoneIn, read } from './daraja-proxy.ts';
import { listenOnFreePort } from './listen-on-free-port.ts';

export interface CallbackAction {
  isLost?: boolean;
  /** Number of deliveries. Default: 1. */
  times?: number;
  delayMs?: number;
}

export interface Callback {
  path: string;
  body: string;
  /** The phone's nine digits; '' without one. */
  phone: string;
}

export interface CallbackProxy {
  url: string;
  close(): Promise<void>;
}

/**
 * Starts the proxy.
 * @param ports of running processes, in the order to try
 * @param decide returns the action for each callback
 * @param onSent called after a callback was sent to a process
 */
export async function openCallbackProxy(
  ports: () => number[],
  decide: (callback: Callback) => CallbackAction = () => ({}),
  onSent: (callback: Callback, port: number) => void = () => {},
): Promise<CallbackProxy> {
  const server = createServer(async (request, response) => {
    const body = await read(request).catch(() => '');
    const callback = { path: request.url ?? '', body, phone: phoneIn(body) };
    const { isLost = false, times = 1, delayMs = 0 } = decide(callback);
    if (isLost) {
      response.destroy();
      return;
    }
    if (delayMs > 0) await new Promise((done) => setTimeout(done, delayMs));
    const [status] = await Promise.all(Array.from({ length: times }, () => forward(callback)));
    if (status) response.writeHead(status).end();
    else response.destroy();
  });

  async function forward(callback: Callback): Promise<number | null> {
    for (const port of ports()) {
      const status = await post(callback, port);
      if (status !== 'refused') return status;
    }
    return null;
  }

  /** `refused` when no process listens there; null when it ended during the request. */
  function post(callback: Callback, port: number): Promise<number | null | 'refused'> {
    return new Promise((done) => {
      const onward = send(
        {
          host: '127.0.0.1',
          port,
          path: callback.path,
          method: 'POST',
          headers: { 'content-type': 'application/json', 'x-forwarded-for': '196.201.212.69' },
        },
        (reply) => {
          reply.resume();
          reply.on('close', () => done(reply.statusCode ?? null));
        },
      );
      onward.on('error', (problem: NodeJS.ErrnoException) =>
        done(problem.code === 'ECONNREFUSED' ? 'refused' : null),
      );
      onward.end(callback.body, () => onSent(callback, port));
    });
  }

  server.keepAliveTimeout = 60_000;
  const { port, close } = await listenOnFreePort(server);
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await close();
    },
  };
}
