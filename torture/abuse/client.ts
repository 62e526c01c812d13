// HTTP from a chosen address: every 127.x.y.z is this machine, so each client of a run has its own IP address.
import { Agent, type OutgoingHttpHeaders, request } from 'node:http';

export interface Call {
  method?: string;
  path: string;
  headers?: OutgoingHttpHeaders;
  body?: string | Buffer;
}

export interface Reply {
  status: number;
  body: string;
  durationMs: number;
}

export interface Client {
  /** Sends one request and reads its answer whole; status 0 when there was none within the timeout. */
  send(call: Call): Promise<Reply>;
  close(): void;
}

/**
 * Makes a client.
 * @param port of the shop on this machine
 * @param localAddress where its requests come from, such as `127.66.0.1`
 * @param timeoutMs after which a request counts as unanswered
 */
export function clientFrom(port: number, localAddress: string, timeoutMs = 60_000): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  return {
    send: ({ method = 'GET', path, headers = {}, body }) =>
      new Promise((resolve) => {
        const startedAt = performance.now();
        const finish = (status: number, text: string) =>
          resolve({ status, body: text, durationMs: performance.now() - startedAt });
        const sent = request(
          {
            host: '127.0.0.1',
            port,
            localAddress,
            agent,
            method,
            path,
            headers: {
              host: `localhost:${port}`,
              ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
              ...headers,
            },
            signal: AbortSignal.timeout(timeoutMs),
          },
          (answer) => {
            const chunks: Buffer[] = [];
            answer.on('data', (chunk: Buffer) => chunks.push(chunk));
            answer.on('end', () => finish(answer.statusCode ?? 0, Buffer.concat(chunks).toString()));
            answer.on('error', (error) => finish(0, String(error)));
          },
        );
        sent.on('error', (error) => finish(0, String(error)));
        sent.end(body);
      }),
    close: () => agent.destroy(),
  };
}
