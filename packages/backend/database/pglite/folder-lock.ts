// Locks a folder for one process: two embedded databases on the same files would destroy them.
import { createHash } from 'node:crypto';
import { realpath, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';

/** Another process (or this one) has the folder open. */
export class FolderInUse extends Error {
  override readonly name = 'FolderInUse';
  constructor(folder: string, reason = 'by another running process; stop that one first') {
    super(`${folder} is in use ${reason}`);
  }
}

/** The folder of the locks cannot be used. The message is a sentence for the operator. */
export class NoTemporaryFolder extends Error {
  override readonly name = 'NoTemporaryFolder';
}

/**
 * Locks a folder. The lock is a listening socket, so it is released when its process ends in any way.
 * @param folder the folder to lock
 * @returns a function that releases the lock
 * @throws FolderInUse when a living process holds it, or a process of another user may; NoTemporaryFolder
 */
export async function lockFolder(folder: string): Promise<() => Promise<void>> {
  const address = lockAddress(await realFolder(folder));
  const server = createServer((socket) => socket.destroy());
  try {
    await listen(server, address);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE') {
      throw new NoTemporaryFolder(
        `The temporary folder ${dirname(address)} cannot be used (${code}); set TMPDIR to one in which this user may write.`,
      );
    }
    if (await isAlive(address)) throw new FolderInUse(folder);
    // A process that was killed has left its socket; whatever else has its name is not a lock.
    await rm(address, { force: true, recursive: true }).catch(() => {
      throw new FolderInUse(
        folder,
        `by another user; run as that user, or delete ${address} if no process does`,
      );
    });
    await listen(server, address).catch(() => {
      throw new FolderInUse(folder);
    });
  }
  server.unref();
  return () => new Promise((done) => server.close(() => done()));
}

/** One lock per folder, through any symbolic links. The folder need not exist; its parent must. */
function realFolder(folder: string): Promise<string> {
  const path = resolve(folder);
  return realpath(path).catch(async () => join(await realpath(dirname(path)), basename(path)));
}

/** Name of the socket that locks a folder. */
export function lockAddress(folder: string): string {
  // Socket paths are limited to about 100 characters, folders are not: hence the hash.
  const name = createHash('sha256').update(folder).digest('hex').slice(0, 32);
  return process.platform === 'win32' ? `\\\\.\\pipe\\jani-${name}` : join(tmpdir(), `jani-${name}.lock`);
}

function listen(server: Server, address: string): Promise<void> {
  return new Promise((done, fail) => {
    server.once('error', fail);
    server.listen(address, () => {
      server.off('error', fail);
      done();
    });
  });
}

function isAlive(address: string): Promise<boolean> {
  return new Promise((answer) => {
    const socket = connect(address);
    socket.once('connect', () => {
      socket.destroy();
      answer(true);
    });
    socket.once('error', () => answer(false));
  });
}
