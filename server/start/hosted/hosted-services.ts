// The services of a hosted project besides its tables: whether they answer, and whether they do what the shop needs.
import { randomUUID } from 'node:crypto';
import { RealtimeClient } from '@supabase/realtime-js';
import { StorageClient } from '@supabase/storage-js';
import { WebSocket } from 'ws';
import { withTimeout } from '../../../domain/timeout.ts';
import { keyHeaders } from '../../../supabase/store.ts';
import type { Config } from '../settings/config.ts';

type Project = NonNullable<Config['supabase']>;

/** What is wrong, and what to do about it. */
export interface Finding {
  problem: string;
  remedy: string;
}

const timeoutMs = 10_000;
const configPush = 'PUBLIC_URL=https://… npx supabase config push';

const isDown = (service: string, page: string, reason: string): Finding => ({
  problem: `${service} does not answer (${reason})`,
  remedy: `look at the project's dashboard (${page}), and whether the project is paused`,
});

/** Checks that staff can sign in by email, and that no one else can create an account. */
export async function checkSignIn(project: Project): Promise<Finding | null> {
  const page = 'Logs, Auth';
  let settings: {
    external?: { email?: boolean; anonymous_users?: boolean };
    disable_signup?: boolean;
    mailer_autoconfirm?: boolean;
  };
  try {
    const response = await fetch(`${project.url}/auth/v1/settings`, {
      headers: keyHeaders(project.publishableKey),
      signal: AbortSignal.timeout(timeoutMs),
    });
    if (!response.ok) return isDown('the auth service', page, `status ${response.status}`);
    settings = (await response.json()) as typeof settings;
  } catch (error) {
    return isDown('the auth service', page, (error as Error).message);
  }
  if (!settings.external?.email) {
    return {
      problem: 'sign-in by email is off, so no staff member can sign in or reset a password',
      remedy: 'turn on the provider "Email" in the dashboard (Authentication, Sign In / Providers)',
    };
  }
  if (!settings.disable_signup || settings.external.anonymous_users) {
    return { problem: 'anyone can create an account', remedy: configPush };
  }
  if (settings.mailer_autoconfirm) {
    return { problem: 'email addresses count as confirmed without an email', remedy: configPush };
  }
  return null;
}

/** A white PNG image of one pixel. */
const probeImage = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==',
  'base64',
);

/**
 * Checks the bucket of product images.
 * @param withProbe also stores an image, reads it as visitors do, and deletes it
 */
export async function checkStorage(project: Project, withProbe: boolean): Promise<Finding | null> {
  const { url, secretKey } = project;
  const storage = new StorageClient(`${url}/storage/v1`, keyHeaders(secretKey));
  const page = 'Logs, Storage';
  try {
    const bucket = await withTimeout(storage.getBucket('product-images'), timeoutMs);
    if (bucket.error) {
      const isMissing = /not found/i.test(bucket.error.message);
      return isMissing
        ? { problem: 'the bucket "product-images" is missing', remedy: dbPush }
        : isDown('the storage service', page, bucket.error.message);
    }
    if (!bucket.data.public) {
      return {
        problem: 'the bucket "product-images" is not public, so visitors see no images',
        remedy: 'make it public in the dashboard (Storage)',
      };
    }
    if (!withProbe) return null;
    const images = storage.from('product-images');
    const path = `products/hosted-check-${randomUUID()}.png`;
    const stored = await withTimeout(
      images.upload(path, probeImage, { contentType: 'image/png' }),
      timeoutMs,
    );
    if (stored.error) {
      return isDown('the storage service', page, `an image cannot be stored: ${stored.error.message}`);
    }
    try {
      const read = await fetch(images.getPublicUrl(path).data.publicUrl, {
        signal: AbortSignal.timeout(timeoutMs),
      });
      await read.arrayBuffer();
      if (!read.ok) return isDown('the storage service', page, `a stored image is read with ${read.status}`);
    } finally {
      await withTimeout(images.remove([path]), timeoutMs);
    }
    return null;
  } catch (error) {
    return isDown('the storage service', page, (error as Error).message);
  }
}

/** The command that brings the database up to date. */
export const dbPush = 'npx supabase link, then npx supabase db push';

/** Checks that a channel can be joined, that a message arrives, and that changes of tables are announced. */
export async function checkRealtime(
  { url, secretKey }: Project,
  withinMs = timeoutMs,
): Promise<Finding | null> {
  const client = new RealtimeClient(`${url.replace(/^http/, 'ws')}/realtime/v1`, {
    params: { apikey: secretKey },
    transport: WebSocket as unknown as typeof globalThis.WebSocket,
  });
  const channel = client.channel(`hosted-check-${randomUUID()}`, { config: { broadcast: { self: true } } });
  const isFollowing = new Promise<boolean>((resolve) => {
    channel.on('postgres_changes', { event: '*', schema: 'public', table: 'products' }, () => {});
    channel.on('system', {}, ({ extension, status }) => {
      if (extension === 'postgres_changes') resolve(status === 'ok');
    });
  });
  const hasArrived = new Promise<void>((resolve) => {
    channel.on('broadcast', { event: 'probe' }, () => resolve());
  });
  const isJoined = new Promise<void>((resolve, reject) => {
    channel.subscribe((status, error) => {
      if (status === 'SUBSCRIBED') resolve();
      else reject(error ?? new Error(status.toLowerCase().replace('_', ' ')));
    });
  });
  const page = 'Realtime, Settings: the service is enabled, with public access';
  try {
    await withTimeout(isJoined, withinMs);
    await channel.send({ type: 'broadcast', event: 'probe', payload: {} });
    await withTimeout(hasArrived, withinMs).catch(() => {
      throw new Error('a message did not arrive');
    });
    if (!(await withTimeout(isFollowing, withinMs).catch(() => false))) {
      return {
        problem: 'changes of products are not announced, so pages are up to 10 minutes old',
        remedy: `${dbPush}; the publication "supabase_realtime" (Database, Publications) must have the table`,
      };
    }
    return null;
  } catch (error) {
    return isDown('realtime', page, (error as Error).message);
  } finally {
    isJoined.catch(() => {});
    await client.removeAllChannels().catch(() => {});
    await client.disconnect();
  }
}

/**
 * Creates the check of the project's services, for `/readyz` and the metrics. The storefront sells without
 * them: pages have no images, staff cannot sign in, or pages are older.
 * @param isFollowing whether the process receives changes by realtime
 * @param rememberedMs how long an answer counts, because health checks may come every second
 */
export function createServiceWatch(
  { url, publishableKey }: Pick<Project, 'url' | 'publishableKey'>,
  isFollowing: () => boolean,
  rememberedMs = 30_000,
): () => Promise<Record<'auth' | 'storage' | 'realtime', boolean>> {
  const answers = (path: string) =>
    fetch(`${url}${path}`, {
      headers: { apikey: publishableKey },
      signal: AbortSignal.timeout(3000),
    }).then(
      async (response) => {
        await response.body?.cancel();
        return response.ok;
      },
      () => false,
    );
  let askedAt = Number.NEGATIVE_INFINITY;
  let asked: Promise<[boolean, boolean]> = Promise.resolve([true, true]);
  return async () => {
    if (performance.now() - askedAt > rememberedMs) {
      askedAt = performance.now();
      asked = Promise.all([answers('/auth/v1/health'), answers('/storage/v1/status')]);
    }
    const [auth, storage] = await asked;
    return { auth, storage, realtime: isFollowing() };
  };
}
