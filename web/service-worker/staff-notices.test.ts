import { beforeEach, describe, expect, test } from 'vitest';
import { closeNotices, type NotifyingScope, openNotice, readNotice, showNotice } from './staff-notices.ts';

const notice = { id: 'n1', title: 'New paid order', text: '2 × Mango', path: '/admin/today/o1' };
const panel = 'https://jani.example/admin/today';
const storefront = 'https://jani.example/shop';

let shown: { title: string; tag: string; isClosed: boolean; data: unknown }[];
let opened: string[];
let messages: unknown[];

beforeEach(() => {
  [shown, opened, messages] = [[], [], []];
});

/** A worker's scope with windows, and the endpoint of its push subscription. */
function scopeWith(
  windows: { url: string; isVisible?: boolean; isFocused?: boolean }[],
  endpoint = 'https://fcm.googleapis.com/x',
): NotifyingScope {
  return {
    clients: {
      matchAll: async () =>
        windows.map(({ url, isVisible = false, isFocused = false }) => ({
          url,
          visibilityState: isVisible ? 'visible' : 'hidden',
          focused: isFocused,
          focus: async () => opened.push(`focus ${url}`),
          postMessage: (message: unknown) => messages.push([url, message]),
        })),
      openWindow: async (path) => opened.push(`open ${path}`),
    },
    registration: {
      async showNotification(title, options) {
        const { tag, data } = options as { tag: string; data: unknown };
        shown = [...shown.filter((other) => other.tag !== tag), { title, tag, data, isClosed: false }];
      },
      getNotifications: async () => shown.map(closable),
      pushManager: { getSubscription: async () => ({ endpoint }) },
    },
  };
}
const closable = (notification: (typeof shown)[number]) => ({
  tag: notification.tag,
  data: notification.data,
  close() {
    notification.isClosed = true;
  },
});
const titles = () => shown.map(({ title }) => title);

describe('a notification', () => {
  test.each([
    ['nothing is open', [], 1],
    ['the panel is in the background', [{ url: panel }], 1],
    ['only the storefront is visible', [{ url: storefront, isVisible: true }], 1],
    ['a page that begins like the panel is visible', [{ url: `${storefront}/admin`, isVisible: true }], 1],
    ['the panel is visible', [{ url: panel, isVisible: true }], 0],
    ['one of two windows of the panel is visible', [{ url: panel }, { url: panel, isVisible: true }], 0],
  ])('when %s', async (_, windows, count) => {
    await showNotice(scopeWith(windows), notice);
    expect(titles()).toHaveLength(count);
  });

  test('is shown on an iPhone also while the panel is visible', async () => {
    const endpoint = 'https://web.push.apple.com/x';
    await showNotice(scopeWith([{ url: panel, isVisible: true }], endpoint), notice);
    expect(titles()).toEqual(['New paid order']);
  });

  test('appears once, although its notice arrives twice', async () => {
    await showNotice(scopeWith([]), notice);
    await showNotice(scopeWith([]), notice);
    expect(titles()).toEqual(['New paid order']);
  });

  test('is closed when someone has dealt with its notice', async () => {
    const scope = scopeWith([]);
    await showNotice(scope, notice);
    await showNotice(scope, { ...notice, id: 'n2' });
    await closeNotices(scope, ['n1', 'unknown']);
    expect(shown.map(({ isClosed }) => isClosed)).toEqual([true, false]);
  });

  test.each([
    ['in a new window', [], [`open ${notice.path}`], []],
    ['in a new window beside the storefront', [{ url: storefront }], [`open ${notice.path}`], []],
    [
      'in the window of the panel that was used last',
      [{ url: `${panel}/1` }, { url: panel, isFocused: true }],
      [`focus ${panel}`],
      [[panel, { type: 'open-notice', path: notice.path }]],
    ],
  ])('opens its screen %s', async (_, windows, expected, sent) => {
    const scope = scopeWith(windows);
    await showNotice(scope, notice);
    await openNotice(scope, closable(shown[0] as (typeof shown)[number]));
    expect([opened, messages, shown[0]?.isClosed]).toEqual([expected, sent, true]);
  });
});

test.each([
  ['a notice', notice, notice],
  ['one with more', { ...notice, count: 3 }, notice],
  ['nothing', null, null],
  ['a text', 'New paid order', null],
  ['one without a title', { ...notice, title: undefined }, null],
  ['one that leads elsewhere', { ...notice, path: 'https://other.example/admin/' }, null],
])('reads %s', (_, value, expected) => {
  expect(readNotice(value)).toEqual(expected);
});
