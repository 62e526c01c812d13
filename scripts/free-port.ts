// A free port of this machine.
import { createServer } from 'node:net';

// Below what systems lend to outgoing connections (Linux from 32768 on): one of those would take a port between its being
// found and its being used. Chance keeps those apart who look at the same time.
const lowest = 12_000;
const highest = 31_000;

/**
 * Finds one; another process may take it until it is used.
 * @throws Error when none was found
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt += 1) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest));
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
