import { expect, test } from 'vitest';
import type { NoticeKind } from '../../../supabase/types.ts';
import { allKinds, parseDeviceSettings } from './device-settings.ts';
import { type NoticePlan, planNotices } from './plan-notices.ts';

const on = { volume: 'normal', repeats: true, notifies: true, kinds: allKinds } as const;
const notice = (id: string, kind: NoticeKind) => ({ id, kind });
const order = notice('o', 'paid_order');
const late = notice('l', 'late_order');
const inquiry = notice('i', 'inquiry');
const low = notice('s', 'low_stock');
const ids = ({ fresh, notifications, ...plan }: NoticePlan<{ id: string }>) => ({
  ...plan,
  fresh: fresh.map(({ id }) => id).join(''),
  notifications: notifications.map(({ id }) => id).join(''),
});
const silent = { fresh: '', notifications: '', ended: [], sound: null, isRepeating: false };

test.each([
  ['nothing waits', null, [], on, {}],
  ['what waited before the panel was opened is not new', null, [order, late], on, { isRepeating: true }],
  ['an order is paid', [], [order], on, { fresh: 'o', notifications: 'o', sound: 'new', isRepeating: true }],
  ['an order still waits', ['o'], [order], on, { isRepeating: true }],
  ['someone took the order', ['o'], [], on, { ended: ['o'] }],
  ['an order is late', [], [late], on, { fresh: 'l', notifications: 'l', sound: 'trouble' }],
  ['a stock is low', [], [low], on, { fresh: 's', notifications: 's', sound: 'new' }],
  ['a stock still is low', ['s'], [low], on, {}],
  [
    'several come at once, the newest first in the list',
    ['i'],
    [late, order, inquiry],
    on,
    { fresh: 'ol', notifications: 'ol', sound: 'new', isRepeating: true },
  ],
  ['the sound is off', [], [order], { ...on, volume: 'off' as const }, { fresh: 'o', notifications: 'o' }],
  ['it does not repeat', ['o'], [order], { ...on, repeats: false }, {}],
  [
    'notifications are off',
    [],
    [order],
    { ...on, notifies: false },
    { fresh: 'o', sound: 'new', isRepeating: true },
  ],
  [
    'a kind is off',
    [],
    [order, inquiry],
    { ...on, kinds: ['inquiry'] as const },
    { fresh: 'io', notifications: 'i', sound: 'new' },
  ],
  ['its only kind is off', [], [order], { ...on, kinds: [] }, { fresh: 'o' }],
] as const)('%s', (_, before, waiting, settings, expected) => {
  expect(ids(planNotices(before && new Set<string>(before), waiting, settings))).toEqual({
    ...silent,
    ...expected,
  });
});

test.each([
  ['nothing stored', null],
  ['no JSON', '{'],
  ['another value', '7'],
  ['unknown values', '{"volume":"deafening","repeats":"yes","kinds":"all"}'],
])('settings of a device are those of a new one with %s', (_, text) => {
  expect(parseDeviceSettings(text)).toMatchObject({ volume: 'normal', repeats: false, kinds: allKinds });
});

test('settings of a device keep what is known', () => {
  expect(
    parseDeviceSettings('{"volume":"loud","repeats":true,"isPushed":true,"kinds":["inquiry","unheard"]}'),
  ).toEqual({
    volume: 'loud',
    repeats: true,
    notifies: false,
    isPushed: true,
    countsInTitle: true,
    countsOnIcon: true,
    // Kinds that came later were not declined.
    kinds: ['cancel_request', 'order_to_agree', 'inquiry', 'low_stock'],
  });
  expect(
    parseDeviceSettings(JSON.stringify({ kinds: ['inquiry'], knownKinds: allKinds })).kinds,
    'all were known',
  ).toEqual(['inquiry']);
});
