// One process at a time, by a file that names the process. Plain JavaScript: it runs before anything is installed.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

const recheckMs = 200;

/**
 * Waits until no other process holds a lock, then holds it. A lock of a process that has ended does not count.
 * @param {string} lock path of the file
 * @param {() => void} onWait called once if another process holds it
 * @returns {Promise<() => void>} releases the lock, as does the end of the process
 */
export async function takeTurn(lock, onWait) {
  mkdirSync(dirname(lock), { recursive: true });
  for (let isFirst = true; ; isFirst = false) {
    try {
      writeFileSync(lock, `${process.pid} ${readBootId()}`, { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (hasEnded(lock)) rmSync(lock, { force: true });
    else {
      if (isFirst) onWait();
      await new Promise((done) => setTimeout(done, recheckMs));
    }
  }
  const giveBack = () => {
    process.off('exit', giveBack);
    rmSync(lock, { force: true });
  };
  process.once('exit', giveBack);
  return giveBack;
}

function hasEnded(lock) {
  try {
    const [id, bootId] = readFileSync(lock, 'utf8').split(' ');
    // After a power cut another process may have its number.
    if (bootId && bootId !== readBootId()) return true;
    // An empty file is a lock that is being written: process 0 always exists.
    process.kill(Number(id), 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

/** Differs after each start of the machine; empty where the system has none. */
function readBootId() {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
