// Starts the image worker, a process of its own for one image at a time: it can be limited in memory and time and killed without
// harm to the shop, and all its memory is returned when it ends.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ImageJob, ImageResult } from './image-job.ts';

export interface ImageProcessOptions {
  /** Maximum bytes of the worker's memory. Default: 1 GiB, which the largest accepted images of every format need at most. */
  maxBytes?: number;
  /** Maximum milliseconds of CPU time per image. Default: 30 seconds. CPU time, because a busy machine makes no image heavier. */
  maxCpuMs?: number;
  /** Maximum milliseconds per image. Default: two minutes. */
  maxMs?: number;
  /** Milliseconds without a job after which the worker ends. Default: 10 seconds. */
  idleMs?: number;
}

export interface ImageProcess {
  /**
   * Does a job after those before it.
   * @returns the result of the worker; `ended` if it crashed or was killed by another program. The next job starts another one.
   */
  run(job: ImageJob): Promise<ImageResult | EndedJob>;
  /** The worker's process ID; null while none runs. */
  readonly pid: number | null;
  /** Ends the worker. A running job is given up. */
  close(): Promise<void>;
}

/** The worker ended before the job did; `reason` is for the log. */
interface EndedJob {
  outcome: 'ended';
  reason: string;
}

interface Worker {
  child: ChildProcess;
  /** The end of what it wrote to standard error. */
  errors: string;
}

/** Creates the process. The worker starts with the first job. */
export function createImageProcess(options: ImageProcessOptions = {}): ImageProcess {
  const { maxBytes = 2 ** 30, maxCpuMs = 30_000, maxMs = 120_000, idleMs = 10_000 } = options;
  let worker: Worker | null = null;
  let idle: NodeJS.Timeout | undefined;
  let last: Promise<unknown> = Promise.resolve();
  let isClosed = false;

  const open = (): Worker => {
    const opened: Worker = { child: spawnWorker(maxBytes, maxCpuMs), errors: '' };
    opened.child.stderr?.on('data', (chunk: Buffer) => {
      opened.errors = (opened.errors + chunk.toString()).slice(-2000);
    });
    const forget = () => {
      if (worker === opened) worker = null;
    };
    opened.child.once('exit', forget).once('error', forget);
    return opened;
  };
  const end = () => {
    clearTimeout(idle);
    worker?.child.kill('SIGKILL');
    worker = null;
  };

  const runNow = (job: ImageJob): Promise<ImageResult | EndedJob> => {
    if (isClosed) return Promise.resolve({ outcome: 'ended', reason: 'the service is closed' });
    clearTimeout(idle);
    worker ??= open();
    const running = worker;
    running.errors = '';
    const { child } = running;
    setReferenced(child, true);
    return new Promise((done) => {
      let isOutOfTime = false;
      const timer = setTimeout(() => {
        isOutOfTime = true;
        end();
      }, maxMs);
      const finish = (result: ImageResult | EndedJob) => {
        clearTimeout(timer);
        child.off('message', onMessage).off('close', onClose).off('error', onError);
        done(result);
      };
      const onMessage = (result: ImageResult) => {
        setReferenced(child, false);
        // One that exceeded a limit still works on the image.
        if (result.outcome.startsWith('out of')) end();
        else idle = setTimeout(end, idleMs).unref();
        finish(result);
      };
      const onClose = (code: number | null, signal: NodeJS.Signals | null) => {
        finish(isOutOfTime ? { outcome: 'out of time' } : explainEnd(code, signal, running.errors));
      };
      const onError = (error: Error) => {
        end();
        finish({ outcome: 'ended', reason: error.message });
      };
      child.on('message', onMessage).on('close', onClose).on('error', onError);
      // Without free file descriptors a process has no channel.
      if (!child.connected) onError(new Error('the worker was not started'));
      // A worker that is just ending reports it by an event.
      else child.send(job, () => {});
    });
  };

  return {
    run(job) {
      // The system may have no memory for another process.
      const result = last
        .then(() => runNow(job))
        .catch((error: unknown): EndedJob => ({ outcome: 'ended', reason: String(error) }));
      last = result;
      return result;
    },
    get pid() {
      return worker?.child.pid ?? null;
    },
    async close() {
      isClosed = true;
      end();
      await last;
    },
  };
}

/** An idle worker must not keep the shop from ending. */
function setReferenced(child: ChildProcess, isReferenced: boolean): void {
  for (const handle of [child, child.channel, child.stderr as Socket | null]) {
    if (isReferenced) handle?.ref();
    else handle?.unref();
  }
}

function explainEnd(code: number | null, signal: NodeJS.Signals | null, errors: string) {
  // Libraries that get no memory end the process, and say why.
  if (/memory|alloc/i.test(errors)) return { outcome: 'out of memory' } as const;
  return { outcome: 'ended', reason: `${signal ?? `code ${code}`} ${errors}`.trim() } as const;
}

function spawnWorker(maxBytes: number, maxCpuMs: number): ChildProcess {
  // The built program is beside this file; in development it runs from its source.
  const extension = extname(import.meta.url);
  const program = fileURLToPath(new URL(`./image-worker${extension}`, import.meta.url));
  const loader = extension === '.ts' ? ['--import', 'tsx'] : [];
  const command = [process.execPath, ...loader, program, String(maxBytes), String(maxCpuMs)];
  // On Linux the kernel refuses memory above RLIMIT_DATA, which unlike RLIMIT_AS does not count what V8 only reserves.
  const limited = ['/bin/sh', '-c', `ulimit -d ${Math.floor(maxBytes / 1024)}; exec "$@"`, 'sh', ...command];
  const [file = '', ...parameters] = process.platform === 'linux' ? limited : command;
  const { PATH, SystemRoot, TMPDIR, TEMP } = process.env;
  return spawn(file, parameters, {
    // None of the shop's secrets: the decoders read untrusted bytes.
    env: Object.fromEntries(Object.entries({ PATH, SystemRoot, TMPDIR, TEMP }).filter(([, value]) => value)),
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
}
