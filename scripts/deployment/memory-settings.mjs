// Settings of V8 and of glibc's allocator. By default both retain memory after a flood of requests: together twice what the shop needs.
import { setFlagsFromString } from 'node:v8';

/** Read before a process begins. An owner's own values take precedence. */
export const memoryEnvironment = {
  // Sizes in MiB: the young generation is three times the first one, on Node 24 up to 200 MiB by default. One thread of V8's own: each
  // keeps the memory of what it compiled. package.json repeats what does not depend on the machine, for Node before 22.15.
  NODE_OPTIONS: '--max-semi-space-size=8 --v8-pool-size=1 --max-old-space-size=1024',
  // Freed blocks of 32 KiB and more, such as parts of request bodies, are returned to the system, and all threads share two arenas.
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TRIM_THRESHOLD_: '131072',
};

/**
 * Sets V8's collector, and starts this process again where its environment lacks a setting.
 * It is not started again before Node 22.15, which cannot replace a process.
 */
export function applyMemorySettings() {
  // V8 collects whenever its heap has doubled.
  setFlagsFromString('--heap-growing-percent=100');
  // Once many objects of one literal have survived, V8 would allocate all later ones as old, which only a full collection removes: with
  // them the text of every answer, 40 % of all memory allocated under load.
  setFlagsFromString('--no-allocation-site-pretenuring');
  const options = process.env.NODE_OPTIONS ?? '';
  const isComplete =
    Object.keys(memoryEnvironment).every((name) => name in process.env) &&
    options.includes('--max-semi-space-size');
  if (isComplete || process.platform !== 'linux' || !('execve' in process)) return;
  process.execve(process.execPath, [process.execPath, ...process.execArgv, ...process.argv.slice(1)], {
    ...memoryEnvironment,
    ...process.env,
    // Of two values of one option the last is used.
    NODE_OPTIONS: `${memoryEnvironment.NODE_OPTIONS} ${options}`.trim(),
  });
}
