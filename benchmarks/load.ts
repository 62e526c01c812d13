// Puts a server under load with wrk and reads its requests per second and latencies.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface Load {
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/** A line of the result. */
export interface Row {
  name: string;
  subject: Load;
  yardstick: Load;
  ratio: number;
}

/**
 * Loads one URL over several connections.
 * @param options.script path of a Lua script for wrk that makes the requests
 * @throws when wrk is missing, or after a response other than 2xx
 */
export async function load(
  url: string,
  headers: Record<string, string> = {},
  { seconds = 5, connections = 16, script }: { seconds?: number; connections?: number; script?: string } = {},
): Promise<Load> {
  const { stdout } = await run('wrk', [
    '--latency',
    '--timeout',
    '10s',
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    ...Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]),
    ...(script ? ['-s', script] : []),
    url,
  ]);
  if (/Non-2xx|Socket errors/.test(stdout)) throw new Error(`${url} failed under load:\n${stdout}`);
  const milliseconds = (percentile: string) => {
    const [, value = '', unit = ''] = new RegExp(`${percentile}%\\s+([\\d.]+)(us|ms|s)`).exec(stdout) ?? [];
    return Number(value) * ({ us: 0.001, ms: 1, s: 1000 }[unit] ?? Number.NaN);
  };
  return {
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p50Ms: milliseconds('50'),
    p99Ms: milliseconds('99'),
  };
}

/**
 * Loads two servers alternately, so that slow moments of the machine affect both, and compares the medians.
 * @returns the median load of each, and subject over yardstick in requests per second
 */
export async function compare(
  subject: () => Promise<Load>,
  yardstick: () => Promise<Load>,
  rounds = 5,
): Promise<{ subject: Load; yardstick: Load; ratio: number }> {
  const subjects: Load[] = [];
  const yardsticks: Load[] = [];
  for (let round = 0; round < rounds; round += 1) {
    yardsticks.push(await yardstick());
    subjects.push(await subject());
  }
  const [a, b] = [median(subjects), median(yardsticks)];
  return { subject: a, yardstick: b, ratio: a.requestsPerSecond / b.requestsPerSecond };
}

function median(loads: Load[]): Load {
  const sorted = [...loads].sort((a, b) => a.requestsPerSecond - b.requestsPerSecond);
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (!middle) throw new Error('nothing was measured');
  return middle;
}
