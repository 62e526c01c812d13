// A free port of this machine.
import { createServer } from 'node:net';

// Below the ephemeral range (Linux: from 32768), so that no outgoing connection takes the port before it
// is used. Random, so that concurrent callers rarely find the same one.
const lowest = 12_000;
const highest = 31_000;

/**
 * Finds a free port. Another process may still take it.
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
