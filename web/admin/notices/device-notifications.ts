// Notifications of this device: whether it can show them, and its push subscription.
import type { Notice } from '../../../domain/messages/notice-text.ts';
import { describeNotice } from '../../../domain/messages/notice-text.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import { serviceWorkers } from '../../lib/browser/browser-storage.ts';
import { ShownError } from '../../lib/shown-error.ts';
import type { Staff } from '../../lib/staff.ts';
import { describeDevice } from '../account/describe-device.ts';
import { dataOf } from '../data/table-answer.ts';
import type { DeviceSettings } from './device-settings.ts';

/**
 * insecure: only pages over https may. not-installed: an iPhone or iPad shows them to an installed app only. unsupported: the browser
 * has none. denied: its user refused them. not-asked and allowed: as the browser says.
 */
export type NotificationSupport =
  | 'insecure'
  | 'not-installed'
  | 'unsupported'
  | 'denied'
  | 'not-asked'
  | 'allowed';

interface Surroundings {
  isSecure: boolean;
  /** An iPhone or iPad: every browser there is Safari's. */
  isApple: boolean;
  isInstalled: boolean;
  hasServiceWorkers: boolean;
  permission: NotificationPermission | null;
}

export function supportIn(given: Surroundings): NotificationSupport {
  const { isSecure, isApple, isInstalled, hasServiceWorkers, permission } = given;
  if (!isSecure) return 'insecure';
  if (isApple && !isInstalled) return 'not-installed';
  if (!hasServiceWorkers || permission === null) return 'unsupported';
  if (permission === 'denied') return 'denied';
  return permission === 'granted' ? 'allowed' : 'not-asked';
}

/** Without a connection to its push service a browser does not answer. */
const subscribeMs = 15_000;

/** What this device can do now. */
export function notificationSupport(): NotificationSupport {
  const { userAgent, maxTouchPoints } = navigator;
  return supportIn({
    isSecure: window.isSecureContext,
    // An iPad calls itself a Mac.
    isApple: /iPhone|iPad/.test(userAgent) || (/Macintosh/.test(userAgent) && maxTouchPoints > 1),
    isInstalled: window.matchMedia('(display-mode: standalone)').matches,
    hasServiceWorkers: serviceWorkers() !== null,
    permission: typeof Notification === 'function' ? Notification.permission : null,
  });
}

/** Asks the user to allow notifications. Must be called by a press. */
export async function askForNotifications(): Promise<NotificationSupport> {
  await Notification.requestPermission();
  return notificationSupport();
}

/** The shop's service worker, which shows notifications; null where there is none. */
async function registration(): Promise<ServiceWorkerRegistration | null> {
  // Only the build has it.
  const workers = import.meta.env.PROD ? serviceWorkers() : null;
  if (!workers) return null;
  await workers.register('/sw.js', { updateViaCache: 'none' });
  return workers.ready;
}

/** Sends the service worker a message, if there is one. */
async function tellWorker(message: object): Promise<void> {
  try {
    (await registration())?.active?.postMessage(message);
  } catch (error) {
    console.warn('The service worker did not answer', error);
  }
}

/** Shows notices as notifications, unless the panel is visible in a window. */
export function notify(notices: readonly (Notice & { id: string })[]): void {
  for (const notice of notices) {
    const { title, text, path } = describeNotice(notice);
    void tellWorker({ type: 'notice', notice: { id: notice.id, title, text, path } });
  }
}

/** Closes the notifications of notices that someone has dealt with. */
export const closeNotifications = (ids: readonly string[]): void =>
  void tellWorker({ type: 'notices-ended', ids });

const bytesOf = (base64url: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(base64url.replace(/-/g, '+').replace(/_/g, '/')), (sign) => sign.charCodeAt(0));
const base64urlOf = (bytes: ArrayBuffer | null): string =>
  btoa(String.fromCharCode(...new Uint8Array(bytes ?? new ArrayBuffer(0))))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=+$/, '');

/** Subscribes this browser with its push service, with the key of this shop. */
async function subscribe(worker: ServiceWorkerRegistration, key: string): Promise<PushSubscription> {
  const known = await worker.pushManager.getSubscription();
  if (known && base64urlOf(known.options.applicationServerKey) === key) return known;
  // A restored shop may have other keys.
  await known?.unsubscribe();
  return worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytesOf(key) });
}

/**
 * Lets the shop push notices to this device, for the signed-in member.
 * @throws ShownError when the browser cannot
 */
export async function subscribeDevice(
  { tables }: Staff,
  { kinds }: Pick<DeviceSettings, 'kinds'>,
): Promise<void> {
  const worker = await registration();
  if (!worker || !('pushManager' in worker)) {
    throw new ShownError('This browser gets notices only while the panel is open.');
  }
  const key = dataOf(await tables.rpc('push_public_key'));
  if (!key) throw new ShownError('The shop is still starting. Please try again in a minute.');
  const subscription = await withTimeout(subscribe(worker, key), subscribeMs).catch((error: unknown) => {
    console.warn('The browser did not subscribe', error);
    throw new ShownError(
      'This browser could not reach its push service. It gets notices only while the panel is open.',
    );
  });
  const { error } = await tables.rpc('save_push_subscription', {
    endpoint: subscription.endpoint,
    p256dh: base64urlOf(subscription.getKey('p256dh')),
    auth_secret: base64urlOf(subscription.getKey('auth')),
    device: describeDevice(navigator.userAgent),
    kinds: [...kinds],
  });
  if (error) throw new ShownError(error.message);
}

/** This device's subscription, if the browser has one. */
async function ownSubscription(): Promise<PushSubscription | null> {
  try {
    // Without registering: a device without a worker has no subscription.
    const worker = await serviceWorkers()?.getRegistration();
    return (await worker?.pushManager?.getSubscription()) ?? null;
  } catch {
    return null;
  }
}

export const ownEndpoint = async (): Promise<string | null> => (await ownSubscription())?.endpoint ?? null;

/** Ends the subscription of this device in the browser; the shop deletes it with the session, or when the push service reports its end. */
export async function unsubscribeDevice(): Promise<void> {
  await (await ownSubscription())?.unsubscribe().catch(() => false);
}
