// Files for pages of other builds: of the former ones, whose pages are still open or stored in browsers, and of newer ones that other
// processes already run. Each process stores the files of its own build, and looks there for those that it does not have.
import { promisify } from 'node:util';
import { brotliDecompress } from 'node:zlib';
import { cacheControlOf } from '../../http/browser-files.ts';
import type { Job } from '../../jobs/jobs.ts';
import { archivedFolders, type BuildArchive, type BuildFile, unpackBuild } from './archive.ts';
import type { BuildStore } from './build-store.ts';

const hourMs = 60 * 60 * 1000;
const dayMs = 24 * hourMs;
/** How often a running process renews its build in the store. */
const renewalMs = dayMs / 2;
/** How long the files of a build stay without a renewal: a week after a process has last run it. */
const stayMs = 7 * dayMs + renewalMs;
/** Maximum builds in the store. */
const maxBuilds = 8;
/** Pause between two listings of the store, however many unknown files are requested. */
const defaultPauseMs = 1000;

const contentTypes: Record<string, string> = {
  css: 'text/css',
  js: 'text/javascript',
  json: 'application/json',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
  woff2: 'font/woff2',
};
const pathPattern = new RegExp(`^/(?:${archivedFolders.join('|')})/[\\w.-]{1,200}$`);
const decompress = promisify(brotliDecompress);

export interface BuildFiles {
  /** Whether a path is one of a file that some build may have. */
  serves(pathname: string): boolean;
  /**
   * Finds a file in the other builds. A file that no known build has is looked for in the store once more, so that the answer never is
   * older than the request.
   * @throws when the store does not answer
   */
  find(pathname: string): Promise<BuildFile | null>;
  /** Stores the files of this process's own build, and deletes those of builds that no process has run for a week. */
  renew(): Promise<void>;
}

/** @param own the build of this process */
export function createBuildFiles(
  store: BuildStore,
  own: BuildArchive,
  { pauseMs = defaultPauseMs }: { pauseMs?: number } = {},
): BuildFiles {
  const builds = new Map<string, Map<string, BuildFile>>();
  const findKnown = (pathname: string) => {
    for (const files of builds.values()) {
      const file = files.get(pathname);
      if (file) return file;
    }
    return null;
  };

  const load = async () => {
    const found = (await store.list()).map(({ id }) => id);
    for (const id of builds.keys()) if (!found.includes(id)) builds.delete(id);
    const problems: unknown[] = [];
    for (const id of found) {
      if (id === own.id || builds.has(id)) continue;
      try {
        builds.set(id, unpackBuild({ id, content: await store.read(id) }));
      } catch (problem) {
        problems.push(problem);
      }
    }
    if (problems.length > 0) throw problems[0];
  };
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | null = null;
  /** Starts after this call: requests for unknown files share it. */
  const lookAgain = () => {
    next ??= last.then(async () => {
      next = null;
      const loading = load();
      // The first look is immediate, the next one waits.
      last = loading.catch(() => {}).then(() => new Promise((done) => setTimeout(done, pauseMs).unref()));
      await loading;
    });
    return next;
  };

  return {
    serves: (pathname) => pathPattern.test(pathname),
    async find(pathname) {
      const known = findKnown(pathname);
      if (known) return known;
      const problem = await lookAgain().then(
        () => null,
        (error: unknown) => error,
      );
      const found = findKnown(pathname);
      if (problem && !found) throw problem;
      return found;
    },
    async renew() {
      const now = Date.now();
      const stored = await store.list();
      const isFresh = stored.some(({ id, seenAt }) => id === own.id && now - seenAt < renewalMs);
      if (!isFresh) await store.write(own.id, own.content);
      const outdated = stored
        .filter(({ id }) => id !== own.id)
        .sort((one, other) => other.seenAt - one.seenAt)
        .filter(({ seenAt }, index) => index + 1 >= maxBuilds || now - seenAt > stayMs);
      if (outdated.length > 0) await store.remove(outdated.map(({ id }) => id));
    },
  };
}

/** The response with a file, which browsers cache like those of the own build. */
export async function respondWithFile(
  pathname: string,
  { body, isBrotli }: BuildFile,
  acceptsBrotli: boolean,
): Promise<Response> {
  const extension = pathname.slice(pathname.lastIndexOf('.') + 1);
  const headers: Record<string, string> = {
    'content-type': contentTypes[extension] ?? 'application/octet-stream',
    'cache-control': cacheControlOf(pathname),
    vary: 'accept-encoding',
  };
  if (!isBrotli) return new Response(new Uint8Array(body), { headers });
  if (!acceptsBrotli) return new Response(new Uint8Array(await decompress(body)), { headers });
  return new Response(new Uint8Array(body), { headers: { ...headers, 'content-encoding': 'br' } });
}

/** The job that renews the files of this build in the store. */
export function storeBuildFiles(files: Pick<BuildFiles, 'renew'>): Job {
  return { name: 'store the files of this build', everyMs: hourMs, firstAfterMs: 60_000, run: files.renew };
}
