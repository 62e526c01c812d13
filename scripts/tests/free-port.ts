// A free port of this machine.
import { createServer } from 'node:net';

// Below the ephemeral range (Linux: from 32768), so that no outgoing connection takes the port before it is used. Each worker of a test
// run has ports of its own: a program may take seconds to listen, and would lose a port that another worker finds free in the meantime.
const [lowest, highest] = [12_000, 32_000];
const mostWorkers = 20;
const portsOfWorker = (highest - lowest) / mostWorkers;
const first = lowest + (Number(process.env.VITEST_POOL_ID ?? 0) % mostWorkers) * portsOfWorker;
const given = new Set<number>();

/**
 * Finds a free port that this process has not given yet. A program outside the test run may still take it.
 * @throws Error when none was found
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = first + Math.floor(Math.random() * portsOfWorker);
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error('no free port was found');
}

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const server = createServer();
    server.once('error', () => done(false));
    server.listen(port, () => server.close(() => done(true)));
  });
}
