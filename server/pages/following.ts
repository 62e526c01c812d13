// Keeps the cached pages until the database changes, here or in a hosted project.
import type { Database } from '@jani-juice/backend/database';
import type { ApiKeys } from '@jani-juice/backend/settings';
import type { Log } from '../monitoring/log.ts';
import { createServiceWatch } from '../start/hosted/hosted-services.ts';
import { followPageChanges } from './follow-page-changes.ts';
import type { PageCache } from './page-cache.ts';
import { changedTags } from './page-changes.ts';

export interface Following {
  /** Null where it is not known. */
  isListening: () => boolean | null;
  /** Services of a hosted project, and whether they answer. */
  readServices: () => Promise<Record<string, boolean>>;
  close: () => Promise<unknown>;
}

export async function followDatabase(database: Database, pages: PageCache): Promise<Following> {
  let isListening = false;
  const close = await database.listen(
    'page_changes',
    (change) => {
      const tags = changedTags(change);
      if (tags) pages.forget(tags);
      else pages.clear();
    },
    () => {
      isListening = true;
      pages.resume();
    },
    () => {
      isListening = false;
      pages.pause();
    },
  );
  return {
    isListening: () => (database.kind === 'postgresql' ? isListening : null),
    readServices: async () => ({}),
    close,
  };
}

export function followProject(url: string, keys: ApiKeys, pages: PageCache, log: Log): Following {
  const changes = followPageChanges({ url, secretKey: keys.secret }, pages, log);
  return {
    isListening: () => null,
    readServices: createServiceWatch({ url, publishableKey: keys.publishable }, () => changes.isFollowing()),
    close: () => changes.close(),
  };
}
