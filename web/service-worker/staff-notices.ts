// Notices to staff in the service worker: shows a push as a notification, and opens its screen when it is pressed.

/** What the server pushes (`PushPayload` in `server/messages/push.ts`). */
export interface PushedNotice {
  id: string;
  title: string;
  text: string;
  path: string;
}

interface WindowClient {
  url: string;
  visibilityState: string;
  focused: boolean;
  focus(): Promise<unknown>;
  postMessage(message: unknown): void;
}
interface Notified {
  close(): void;
  data: unknown;
  tag: string;
}
/** The used part of the worker's global scope; the project's types are those of windows. */
export interface NotifyingScope {
  clients: {
    matchAll(options: { type: 'window'; includeUncontrolled: boolean }): Promise<readonly WindowClient[]>;
    openWindow(path: string): Promise<unknown>;
  };
  registration: {
    showNotification(title: string, options: object): Promise<void>;
    getNotifications(): Promise<readonly Notified[]>;
    pushManager?: { getSubscription(): Promise<{ endpoint: string } | null> };
  };
}

const tagOf = (id: string): string => `jani-notice-${id}`;

/** Reads a push or a message of the panel; null if it is neither. */
export function readNotice(value: unknown): PushedNotice | null {
  const { id, title, text, path } = (value ?? {}) as Record<keyof PushedNotice, unknown>;
  return typeof id === 'string' &&
    typeof title === 'string' &&
    typeof text === 'string' &&
    typeof path === 'string' &&
    path.startsWith('/admin/')
    ? { id, title, text, path }
    : null;
}

/** The windows of the panel. */
async function panels({ clients }: NotifyingScope): Promise<WindowClient[]> {
  const windows = await clients.matchAll({ type: 'window', includeUncontrolled: true });
  return windows.filter(({ url }) => /^\/admin(?:\/|$)/.test(new URL(url).pathname));
}

/** Apple ends a subscription whose pushes show nothing. The notification replaces the one of the panel, because both have one tag. */
async function mustShow({ registration }: NotifyingScope): Promise<boolean> {
  const subscription = await registration.pushManager?.getSubscription().catch(() => null);
  return subscription ? /(?:^|\.)push\.apple\.com$/.test(new URL(subscription.endpoint).hostname) : false;
}

/** Shows a notice, unless a window of the panel is visible: there it is a toast with a sound. */
export async function showNotice(
  scope: NotifyingScope,
  { id, title, text, path }: PushedNotice,
): Promise<void> {
  const isSeen = (await panels(scope)).some(({ visibilityState }) => visibilityState === 'visible');
  if (isSeen && !(await mustShow(scope))) return;
  await scope.registration.showNotification(title, {
    body: text,
    // A notice that arrives twice, or that the panel shows too, replaces its first notification silently.
    tag: tagOf(id),
    icon: '/icon-192.png',
    data: { path },
  });
}

/** Closes notifications of notices that someone has dealt with. */
export async function closeNotices({ registration }: NotifyingScope, ids: readonly string[]): Promise<void> {
  const tags = new Set(ids.map(tagOf));
  for (const shown of await registration.getNotifications()) if (tags.has(shown.tag)) shown.close();
}

/** Opens the screen of a notification that was pressed: in an open window of the panel, or a new one. */
export async function openNotice(scope: NotifyingScope, pressed: Notified): Promise<void> {
  pressed.close();
  const { path } = (pressed.data ?? {}) as { path?: unknown };
  if (typeof path !== 'string') return;
  const open = await panels(scope);
  const panel = open.find(({ focused }) => focused) ?? open[0];
  if (!panel) {
    await scope.clients.openWindow(path);
    return;
  }
  panel.postMessage({ type: 'open-notice', path });
  await panel.focus();
}
