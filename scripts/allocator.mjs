// Settings of glibc's allocator. By default it retains freed memory: hundreds of megabytes after a flood of uploads or sign-ins.

/** Freed blocks of 32 KiB and more, such as parts of request bodies, are returned to the system, and all threads share two arenas. */
export const allocatorSettings = {
  MALLOC_ARENA_MAX: '2',
  MALLOC_MMAP_THRESHOLD_: '32768',
  MALLOC_TRIM_THRESHOLD_: '131072',
};

/**
 * Starts this process again with the settings, which are read before a process begins. Does nothing where the environment has one of
 * them, and before Node 22.15, which cannot replace a process.
 */
export function applyAllocatorSettings() {
  const isSet = Object.keys(allocatorSettings).some((name) => name in process.env);
  if (isSet || process.platform !== 'linux' || !('execve' in process)) return;
  const parameters = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve(process.execPath, parameters, { ...process.env, ...allocatorSettings });
}
