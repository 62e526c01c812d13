// Imported first by a program of a test: ends the process as a power cut does, at the n-th operation that changes a file (POWER_CUT_AT).
// What the process wrote to the files below POWER_CUT_IN and did not sync is undone first, in reverse order.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const cutAt = Number(process.env.POWER_CUT_AT);
const folder = process.env.POWER_CUT_IN;
const original = { ...fs };
/** Content that writes have replaced, oldest first. `bytes` is null where the file ended. */
let unsynced = [];
const paths = new Map();
let operations = 0;
const maxUnsynced = 20_000;

function count() {
  operations += 1;
  if (operations !== cutAt) return;
  // Node's own functions call each other through the replaced ones.
  const lost = unsynced.reverse();
  unsynced = [];
  paths.clear();
  for (const { path, position, bytes, size } of lost) {
    try {
      if (bytes.length > 0) {
        const file = original.openSync(path, 'r+');
        original.writeSync(file, bytes, 0, bytes.length, position);
        original.closeSync(file);
      }
      original.truncateSync(path, size);
    } catch {
      // The file was renamed or deleted afterwards.
    }
  }
  process.kill(process.pid, 'SIGKILL');
}

function remember(path, position, length) {
  if (path === undefined) return;
  const { size } = original.statSync(path);
  const bytes = Buffer.alloc(Math.max(0, Math.min(length, size - position)));
  if (bytes.length > 0) {
    const file = original.openSync(path, 'r');
    original.readSync(file, bytes, 0, bytes.length, position);
    original.closeSync(file);
  }
  unsynced.push({ path, position, bytes, size });
  if (unsynced.length > maxUnsynced) throw new Error(`${path} is written and never synced`);
}

const isInside = (path) => typeof path === 'string' && path.startsWith(folder);

// PGlite and Emscripten use the synchronous functions.
fs.openSync = (path, flags, ...more) => {
  const isNew = isInside(path) && !original.existsSync(path);
  if (isNew) count();
  const file = original.openSync(path, flags, ...more);
  if (isInside(path) && operations !== cutAt) paths.set(file, path);
  else paths.delete(file);
  return file;
};
fs.closeSync = (file) => {
  paths.delete(file);
  original.closeSync(file);
};
fs.writeSync = (file, buffer, offset, length, position) => {
  const path = paths.get(file);
  if (path !== undefined && typeof position === 'number') {
    count();
    remember(path, position, length ?? buffer.length);
  }
  return original.writeSync(file, buffer, offset, length, position);
};
fs.ftruncateSync = (file, length = 0) => {
  const path = paths.get(file);
  if (path !== undefined) {
    count();
    const { size } = original.statSync(path);
    if (length < size) remember(path, length, size - length);
    else unsynced.push({ path, position: size, bytes: Buffer.alloc(0), size });
  }
  original.ftruncateSync(file, length);
};
for (const name of ['fsyncSync', 'fdatasyncSync']) {
  fs[name] = (file) => {
    const path = paths.get(file);
    if (path !== undefined) count();
    original[name](file);
    unsynced = unsynced.filter((write) => write.path !== path);
  };
}
for (const name of ['renameSync', 'unlinkSync', 'mkdirSync', 'rmdirSync']) {
  fs[name] = (path, ...more) => {
    if (isInside(path)) count();
    const answer = original[name](path, ...more);
    if (name === 'renameSync') for (const write of unsynced) if (write.path === path) write.path = more[0];
    return answer;
  };
}
// Our own code uses promises. Their writes are complete files, which are emptied if they are not synced.
const { promises } = fs;
const writeFile = promises.writeFile;
promises.writeFile = async (path, ...more) => {
  if (isInside(path)) {
    count();
    unsynced.push({ path, position: 0, bytes: Buffer.alloc(0), size: 0 });
  }
  return writeFile(path, ...more);
};
const open = promises.open;
promises.open = async (path, ...more) => {
  const file = await open(path, ...more);
  if (!isInside(path)) return file;
  count();
  const sync = file.sync.bind(file);
  file.sync = async () => {
    count();
    await sync();
    unsynced = unsynced.filter((write) => write.path !== path);
  };
  return file;
};
for (const name of ['rename', 'mkdir', 'rm']) {
  const call = promises[name];
  promises[name] = async (path, ...more) => {
    if (isInside(path)) count();
    if (name === 'rename') {
      const [target] = more;
      for (const write of unsynced) {
        if (write.path === path || write.path.startsWith(`${path}/`))
          write.path = target + write.path.slice(path.length);
      }
    }
    return call(path, ...more);
  };
}
syncBuiltinESMExports();
process.on('exit', () => process.stderr.write(`operations ${operations}\n`));
