// Limits log lines of one kind, so that a client that causes them cannot fill the disk.

export interface LineLimitOptions {
  /** Lines per second on average. Default: 5. */
  linesPerSecond?: number;
  /** Burst of lines after a quiet time. Default: 20. */
  burst?: number;
  /** Milliseconds of a monotonic clock. */
  now?: () => number;
}

/**
 * Creates the limit.
 * @returns a function to call before each line: the number of lines left out since the last one, or null to leave out this one, too
 */
export function createLineLimit(options: LineLimitOptions = {}): () => number | null {
  const { linesPerSecond = 5, burst = 20, now = () => performance.now() } = options;
  let lines = burst;
  let refilledAt = now();
  let leftOut = 0;
  return () => {
    const time = now();
    lines = Math.min(burst, lines + ((time - refilledAt) / 1000) * linesPerSecond);
    refilledAt = time;
    if (lines < 1) {
      leftOut += 1;
      return null;
    }
    lines -= 1;
    const before = leftOut;
    leftOut = 0;
    return before;
  };
}
