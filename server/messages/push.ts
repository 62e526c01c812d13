// Sends notices to devices of staff by Web Push (RFC 8030, 8188, 8291, 8292; docs/decisions/notices.md).
import { type Fetch, PrivateAddress } from '@jani-juice/backend/http';
import { describeNotice, type Notice } from '../../domain/messages/notice-text.ts';
import type { Store } from '../../supabase/store.ts';
import type { Log } from '../monitoring/log.ts';

export interface PushOptions {
  /** Table client with the secret key, which may lease pushes. */
  tables: Store['tables'];
  /** Public URL of the shop, which push services may contact about its pushes. */
  publicUrl: string;
  /** Sends the request: endpoints are URLs that browsers gave, so it must only reach the public internet. */
  send: Fetch;
  log: Log;
  /** Once aborted, no further push is started; those being sent are finished. */
  signal?: AbortSignal;
}

/** A row of `lease_pushes`: a notice for one device. */
interface LeasedPush extends Notice {
  id: number;
  lease: string;
  endpoint: string;
  p256dh: string;
  auth_secret: string;
  notice_id: string;
  seconds_to_live: number;
}

interface PushKeys {
  public_key: string;
  private_key: string;
}

/** What the service worker receives. */
interface PushPayload {
  /** The notice's id. */
  id: string;
  title: string;
  text: string;
  path: string;
}

interface Outcome {
  outcome: 'sent' | 'refused' | 'failed' | 'gone';
  retryAfterSeconds?: number;
  problem?: string;
}

const concurrency = 8;
/** Maximum duration of a run, so that its duration and failures appear in the metrics. */
const maxRunMs = 30_000;
const timeoutMs = 10_000;
/** Longest text of a notice: push services take 4 kB, encrypted. */
const maxTextLength = 300;

/**
 * Sends due pushes, and creates the shop's VAPID keys when there are none.
 * @throws when the database is unavailable; pushes without an outcome are sent again
 */
export async function sendDuePushes(options: PushOptions): Promise<void> {
  const { tables, signal } = options;
  const keys = await ensurePushKeys(tables);
  const end = Date.now() + maxRunMs;
  while (!signal?.aborted && Date.now() < end) {
    const { data, error } = await tables.rpc('lease_pushes', { at_most: 2 * concurrency });
    if (error) throw new Error(error.message);
    const leased = data as unknown as LeasedPush[];
    const waiting = leased.values();
    const ends = await Promise.allSettled(
      Array.from({ length: concurrency }, async () => {
        for (const push of waiting) await sendOne(push, keys, options);
      }),
    );
    const failed = ends.find((ended) => ended.status === 'rejected');
    if (failed) throw failed.reason;
    if (leased.length < 2 * concurrency) return;
  }
}

/** The keys in the database: of several processes that start at once, one creates them. */
async function ensurePushKeys(tables: Store['tables']): Promise<PushKeys> {
  const read = async () => {
    const { data, error } = await tables.rpc('read_push_keys');
    if (error) throw new Error(error.message);
    return data[0];
  };
  const known = await read();
  if (known) return known;
  const { default: webPush } = await import('web-push');
  const { publicKey, privateKey } = webPush.generateVAPIDKeys();
  const { error } = await tables.rpc('store_push_keys', { public_key: publicKey, private_key: privateKey });
  if (error) throw new Error(error.message);
  const stored = await read();
  if (!stored) throw new Error('The push keys were not stored');
  return stored;
}

async function sendOne(push: LeasedPush, keys: PushKeys, options: PushOptions): Promise<void> {
  const { tables, log, signal } = options;
  // It stays leased, and can be leased again in a minute.
  if (signal?.aborted) return;
  const end = await deliver(push, keys, options);
  if (end.outcome !== 'sent') {
    // Of the endpoint only the host: its path identifies the device.
    const { host } = new URL(push.endpoint);
    log.warn(
      { notice: push.kind, host, outcome: end.outcome, problem: end.problem },
      'a notice was not pushed',
    );
  }
  const { error } = await tables.rpc('finish_push', {
    push_id: push.id,
    lease: push.lease,
    outcome: end.outcome,
    ...(end.retryAfterSeconds === undefined ? {} : { retry_after_seconds: end.retryAfterSeconds }),
  });
  if (error) throw new Error(error.message);
}

async function deliver(push: LeasedPush, keys: PushKeys, { send, publicUrl }: PushOptions): Promise<Outcome> {
  const { default: webPush } = await import('web-push');
  const { title, text, path } = describeNotice(push);
  const payload: PushPayload = { id: push.notice_id, title, text: text.slice(0, maxTextLength), path };
  let request: ReturnType<typeof webPush.generateRequestDetails>;
  try {
    request = webPush.generateRequestDetails(
      { endpoint: push.endpoint, keys: { p256dh: push.p256dh, auth: push.auth_secret } },
      JSON.stringify(payload),
      {
        vapidDetails: {
          subject: contactFor(publicUrl),
          publicKey: keys.public_key,
          privateKey: keys.private_key,
        },
        TTL: push.seconds_to_live,
        urgency: 'high',
        // A push that is sent again replaces the one that has not arrived yet.
        topic: push.notice_id.replaceAll('-', ''),
        contentEncoding: 'aes128gcm',
      },
    );
  } catch (error) {
    // Its keys are no point of the curve.
    return { outcome: 'gone', problem: (error as Error).message };
  }
  // Counted by the connection itself.
  const { 'Content-Length': _, ...headers } = request.headers as Record<string, unknown>;
  try {
    const answer = await send(request.endpoint, {
      method: request.method,
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)])),
      body: request.body,
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    });
    await answer.body?.cancel();
    return readAnswer(answer);
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error };
    // A host of this machine or its network is no push service.
    if (cause instanceof PrivateAddress) return { outcome: 'gone', problem: cause.message };
    return { outcome: 'refused', problem: cause?.message ?? message };
  }
}

function readAnswer({ status, ok, headers }: Response): Outcome {
  if (ok) return { outcome: 'sent' };
  const problem = `the push service answered ${status}`;
  if (status === 404 || status === 410) return { outcome: 'gone', problem };
  if (status === 429 || status >= 500) {
    const seconds = Number(headers.get('retry-after'));
    return { outcome: 'refused', problem, ...(seconds > 0 ? { retryAfterSeconds: Math.ceil(seconds) } : {}) };
  }
  // Another notice may fit: this one is too long, or the keys were not accepted.
  return { outcome: 'failed', problem };
}

/** A URL or email address, as RFC 8292 asks for. */
const contactFor = (publicUrl: string): string =>
  publicUrl.startsWith('https:') ? publicUrl : `mailto:admin@${new URL(publicUrl).hostname}`;
