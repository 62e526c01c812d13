// What moved money, as rows of the day's page and of the file for the accountant.
import { Link } from 'react-router';
import { formatKes } from '../../../domain/money.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { phoneCell } from '../list/phone-cell.ts';
import type { Column } from '../list/row-list.tsx';
import { labelOf } from '../status/label-of.ts';
import { knownNameOf, type NameOf } from '../ui/known-names.ts';
import { useShortNameOf } from '../ui/staff-name.tsx';
import { formatForFile, formatTime } from '../ui/time/dates.ts';
import type { Shown } from './day-bridge.ts';
import type { Entry } from './day-queries.ts';

export const kindLabels: Readonly<Record<string, string>> = {
  prompt: 'M-PESA prompt',
  till: 'Paid to the till',
  cash: 'Cash',
  refund_by_mpesa: 'Refund by M-PESA',
  refund_by_hand: 'Refund by hand',
  refund_in_cash: 'Refund in cash',
  change_by_hand: 'Part sent back by hand',
  change_in_cash: 'Part given back in cash',
  kept: 'Kept for the customer',
  credit_used: 'Credit paid another order',
  credit_returned: 'Credit was not used',
  not_owed: 'Not owed after all',
};

/** Which kinds are listed under a step of the bridge. */
const shownKinds: Record<Exclude<Shown, 'kept' | 'back'>, readonly string[]> = {
  prompt: ['prompt'],
  till: ['till'],
  cash: ['cash'],
  by_mpesa: ['refund_by_mpesa'],
  by_hand: ['refund_by_hand', 'change_by_hand'],
  in_cash: ['refund_in_cash', 'change_in_cash'],
};

export const shownLabels: Record<Shown, string> = {
  prompt: 'M-PESA prompts',
  till: 'Paid to the till',
  cash: 'Cash',
  by_mpesa: 'Sent back by M-PESA',
  by_hand: 'Sent back by hand',
  in_cash: 'Given back in cash',
  back: 'All that went back',
  kept: 'Kept for customers',
};

export function isShown(show: Shown, { kind, refunded_cents, kept_cents }: Entry): boolean {
  if (show === 'back') return refunded_cents > 0;
  return show === 'kept' ? kept_cents !== 0 : shownKinds[show].includes(kind);
}

const kindOf = ({ kind }: Entry): string => labelOf(kindLabels, kind);
const inKes = (cents: number | null): number | null => (cents ? cents / 100 : null);

/** Who had it in hand: the rider and the member. */
const handsOf = ({ received_from, member_email }: Entry, nameOf: NameOf): string =>
  [received_from, member_email ? nameOf(member_email) : null].filter(Boolean).join(', to ');

function Hands({ entry }: { entry: Entry }) {
  return <span className="line-clamp-2">{handsOf(entry, useShortNameOf())}</span>;
}

const amounts = ({ received_cents, refunded_cents, kept_cents }: Entry) => (
  <>
    {received_cents > 0 ? formatKes(received_cents) : null}
    {refunded_cents > 0 ? <span className="text-danger">− {formatKes(refunded_cents)}</span> : null}
    {received_cents === 0 && refunded_cents === 0 ? (
      <span className="text-ink-soft">{formatKes(Math.abs(kept_cents))}</span>
    ) : null}
  </>
);

const OrderLink = ({ entry: { order_id, order_number } }: { entry: Entry }) => (
  <Link
    to={`/admin/orders/${order_id}`}
    data-row-link
    className="font-semibold whitespace-nowrap text-dusk-800 underline"
  >
    {order_number}
  </Link>
);

export const entryColumns: Column<Entry>[] = [
  { title: 'Time', width: '5.5rem', show: ({ happened_at }) => formatTime(happened_at) },
  { title: 'Kind', width: '11.5rem', show: kindOf },
  { title: 'Order', width: '7rem', show: (entry) => <OrderLink entry={entry} /> },
  {
    title: 'Customer',
    width: '9.5rem',
    show: ({ customer_name }) => <span className="line-clamp-2">{customer_name}</span>,
  },
  { title: 'Drinks', show: ({ items }) => <span className="line-clamp-2">{items}</span> },
  { title: 'Receipt', width: '7.5rem', show: ({ receipt }) => receipt ?? '' },
  {
    title: 'By',
    width: '8.5rem',
    show: (entry) => <Hands entry={entry} />,
  },
  { title: 'Amount', width: '7rem', isNumber: true, show: amounts },
];

/** On phones. */
export function EntryRow({ entry }: { entry: Entry }) {
  const nameOf = useShortNameOf();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-3 py-1 text-sm leading-5.5">
      <p className="truncate font-semibold">
        {kindOf(entry)}
        <span className="font-normal text-ink-soft"> {formatTime(entry.happened_at)}</span>
      </p>
      <p className="text-right font-semibold whitespace-nowrap tabular-nums">{amounts(entry)}</p>
      <p className="col-span-2 truncate">
        <OrderLink entry={entry} /> <span className="text-ink-soft">{entry.customer_name}</span>
      </p>
      <p className="col-span-2 truncate text-ink-soft">
        {[entry.items, entry.receipt, handsOf(entry, nameOf)].filter(Boolean).join(' · ')}
      </p>
    </div>
  );
}

/** For an accountant. The sums of the amounts are the totals of the day's page. */
export const entryFileColumns: CsvColumn<Entry>[] = [
  { title: 'Date', value: ({ happened_at }) => formatForFile(happened_at)?.slice(0, 10) ?? null },
  { title: 'Time (Nairobi)', value: ({ happened_at }) => formatForFile(happened_at)?.slice(11) ?? null },
  { title: 'Kind', value: kindOf },
  { title: 'Order #', value: ({ order_number }) => order_number },
  { title: 'Tracking number', value: ({ tracking_number }) => tracking_number },
  { title: 'Customer', value: ({ customer_name }) => customer_name },
  { title: 'Phone', value: ({ customer_phone }) => phoneCell(customer_phone) },
  { title: 'Receipt', value: ({ receipt }) => receipt },
  { title: 'Received (KES)', value: ({ received_cents }) => inKes(received_cents) },
  { title: 'Refunded (KES)', value: ({ refunded_cents }) => inKes(refunded_cents) },
  { title: 'Kept for the customer (KES)', value: ({ kept_cents }) => inKes(kept_cents) },
  {
    title: 'Delivery fee included (KES)',
    value: ({ delivery_fee }) => (delivery_fee === null ? null : delivery_fee / 100),
  },
  { title: 'Discount (KES)', value: ({ discount_cents }) => inKes(discount_cents) },
  { title: 'Drinks', value: ({ items }) => items },
  { title: 'Handed over by', value: ({ received_from }) => received_from },
  { title: 'Staff member', value: ({ member_email }) => member_email && knownNameOf(member_email) },
  { title: 'Note', value: ({ note }) => note },
];
