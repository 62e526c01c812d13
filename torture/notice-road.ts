// The road from M-PESA to the shop: the one public address, which leads to any process that lives; it can lose notices,
// double and delay them.
import { createServer, request as send } from 'node:http';
import { phoneIn, read } from './daraja-road.ts';
import { listenAnywhere } from './listen-anywhere.ts';

export interface NoticeFate {
  isLost?: boolean;
  /** How often it comes; once unless told. */
  times?: number;
  delayMs?: number;
}

export interface Notice {
  path: string;
  body: string;
  /** The nine digits of the phone it is about; '' where it names none. */
  phone: string;
}

export interface NoticeRoad {
  url: string;
  close(): Promise<void>;
}

/**
 * Opens the road.
 * @param ports of the processes that live, in the order in which they are tried
 * @param decide what becomes of each notice
 * @param onSent told when a notice has left for a process
 */
export async function openNoticeRoad(
  ports: () => number[],
  decide: (notice: Notice) => NoticeFate = () => ({}),
  onSent: (notice: Notice, port: number) => void = () => {},
): Promise<NoticeRoad> {
  const server = createServer(async (asked, answer) => {
    const body = await read(asked).catch(() => '');
    const notice = { path: asked.url ?? '', body, phone: phoneIn(body) };
    const { isLost = false, times = 1, delayMs = 0 } = decide(notice);
    if (isLost) {
      answer.destroy();
      return;
    }
    if (delayMs > 0) await new Promise((done) => setTimeout(done, delayMs));
    const [status] = await Promise.all(Array.from({ length: times }, () => forward(notice)));
    if (status) answer.writeHead(status).end();
    else answer.destroy();
  });

  async function forward(notice: Notice): Promise<number | null> {
    for (const port of ports()) {
      const status = await post(notice, port);
      if (status !== 'refused') return status;
    }
    return null;
  }

  /** `refused` when nobody listens there; null when the process went away with it. */
  function post(notice: Notice, port: number): Promise<number | null | 'refused'> {
    return new Promise((done) => {
      const onward = send(
        {
          host: '127.0.0.1',
          port,
          path: notice.path,
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
      onward.end(notice.body, () => onSent(notice, port));
    });
  }

  server.keepAliveTimeout = 60_000;
  const { port, close } = await listenAnywhere(server);
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      await close();
    },
  };
}
