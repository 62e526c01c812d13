// Locks of resumable uploads in the folder of their parts, so that processes that share it do not overwrite each other's parts.
import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ERRORS, type Lock, type Locker, MemoryLocker } from '@tus/server';

export interface UploadLockOptions {
  /** Milliseconds between two renewals of a lock. Default: 500. */
  heartbeatMs?: number;
  /** Milliseconds without a renewal after which a lock counts as left by a killed process. Default: 10,000. */
  staleMs?: number;
  /** Milliseconds that a request waits for a lock. Default: 30,000. */
  timeoutMs?: number;
}

/**
 * Locks uploads by files in a folder. Within this process requests wait in memory first. A request that waits asks the holder to stop, as
 * the protocol recommends: its client has lost the connection and reconnects.
 */
export function createUploadLocks(folder: string, options: UploadLockOptions = {}): Locker {
  const { heartbeatMs = 500, staleMs = 10_000, timeoutMs = 30_000 } = options;
  const memory = new MemoryLocker({ acquireLockTimeout: timeoutMs });

  const newLock = (id: string): Lock => {
    const memoryLock = memory.newLock(id);
    const path = join(folder, `${id}.lock`);
    const releaseRequestPath = `${path}.wanted`;
    let heartbeat: NodeJS.Timeout | undefined;
    let token = '';
    return {
      async lock(signal, requestRelease) {
        await memoryLock.lock(signal, requestRelease);
        token = randomUUID();
        try {
          const deadline = performance.now() + timeoutMs;
          while (!(await isCreated(path, token))) {
            if (signal.aborted || performance.now() > deadline) throw ERRORS.ERR_LOCK_TIMEOUT;
            await removeStale(path, staleMs);
            await writeFile(releaseRequestPath, '');
            await new Promise((done) => setTimeout(done, heartbeatMs / 5));
          }
          await rm(releaseRequestPath, { force: true });
        } catch (error) {
          await memoryLock.unlock();
          throw error;
        }
        heartbeat = setInterval(() => {
          const now = new Date();
          utimes(path, now, now).catch(() => {});
          stat(releaseRequestPath).then(
            () => void requestRelease(),
            () => {},
          );
        }, heartbeatMs);
      },
      async unlock() {
        clearInterval(heartbeat);
        // Not the lock of another process that took this one over.
        if ((await readFile(path, 'utf8').catch(() => null)) === token) await rm(path, { force: true });
        await memoryLock.unlock();
      },
    };
  };
  return { newLock };
}

async function isCreated(path: string, token: string): Promise<boolean> {
  try {
    await writeFile(path, token, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function removeStale(path: string, staleMs: number): Promise<void> {
  const found = await stat(path).catch(() => null);
  if (!found || Date.now() - found.mtimeMs < staleMs) return;
  // Only one of several processes can move it away.
  const aside = `${path}.${randomUUID()}`;
  await rename(path, aside).catch(() => {});
  await rm(aside, { force: true });
}
