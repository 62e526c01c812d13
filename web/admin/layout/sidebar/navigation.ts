// The sidebar's entries in order (docs/product.md#panel-layout), with less frequent ones below.
import type { StaffRole } from '../../../../domain/people/staff-rights.ts';
import type { Waiting } from '../../live/use-waiting.ts';
import { mayOpen } from '../roles/screen-areas.ts';
import type { StaffIconName } from './staff-icons.tsx';

export interface Entry {
  label: string;
  to: string;
  icon: StaffIconName;
  /** Keys of the numbers of items that wait for staff. */
  waiting?: readonly { count: keyof Waiting; words: string }[];
}

export const screens: readonly Entry[] = [
  {
    label: 'Today',
    to: '/admin/today',
    icon: 'today',
    waiting: [{ count: 'toPrepare', words: 'to prepare' }],
  },
  { label: 'Dashboard', to: '/admin/dashboard', icon: 'dashboard' },
  { label: 'Products', to: '/admin/products', icon: 'bottle' },
  {
    label: 'Orders',
    to: '/admin/orders',
    icon: 'receipt',
    waiting: [
      { count: 'orders', words: 'newly paid' },
      { count: 'refunds', words: 'refunds to approve' },
    ],
  },
  {
    label: 'Deliveries',
    to: '/admin/deliveries',
    icon: 'scooter',
    waiting: [{ count: 'deliveries', words: 'to assign' }],
  },
  {
    label: 'Inquiries',
    to: '/admin/inquiries',
    icon: 'inbox',
    waiting: [{ count: 'inquiries', words: 'unread' }],
  },
  { label: 'Customers', to: '/admin/customers', icon: 'people' },
  {
    label: 'Messages',
    to: '/admin/messages',
    icon: 'message',
    waiting: [{ count: 'messages', words: 'not sent' }],
  },
  {
    label: 'Reconciliation',
    to: '/admin/reconciliation',
    icon: 'scales',
    waiting: [{ count: 'money', words: 'to match or check' }],
  },
  { label: 'The day', to: '/admin/day', icon: 'coins' },
  { label: 'Reports', to: '/admin/reports', icon: 'chart' },
];

/** On a phone in the menu, otherwise a button of its screens. */
export const newOrder: Entry = { label: 'New order', to: '/admin/orders/new', icon: 'pencil' };

export const rarelyNeeded: readonly Entry[] = [
  { label: 'Settings', to: '/admin/settings', icon: 'settings' },
];

/** On a phone in the menu, otherwise in the header. */
export const account: Entry = { label: 'Account', to: '/admin/account', icon: 'account' };

/** Screens at the thumb on a phone; the others are behind 'More'. */
export const atTheThumb = screens.filter(({ label }) =>
  ['Today', 'Orders', 'Deliveries', 'Inquiries'].includes(label),
);

/** The entries whose page the role has. */
export const forRole = (role: StaffRole, entries: readonly Entry[]): Entry[] =>
  entries.filter(({ to }) => mayOpen(role, to));

export interface Waits {
  number: number;
  words: string;
}

/** What waits behind an entry, without zeros. */
export const waitsBehind = (entry: Entry, waiting: Waiting): Waits[] =>
  (entry.waiting ?? [])
    .map(({ count, words }) => ({ number: waiting[count], words }))
    .filter(({ number }) => number > 0);

/** Their sum, and the words that follow it: with one kind of item its number is read before the words. */
export function sumUp(waits: readonly Waits[]): Waits {
  const [only] = waits;
  return {
    number: waits.reduce((sum, { number }) => sum + number, 0),
    words:
      waits.length === 1 && only
        ? only.words
        : `(${waits.map(({ number, words }) => `${number} ${words}`).join(', ')})`,
  };
}

/** A number on a badge. */
export const badgeText = (number: number): string => (number > 99 ? '99+' : String(number));
