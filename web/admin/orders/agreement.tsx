// Orders whose delivery fee and day are agreed with the customer: the form in the order, and the number of those that wait.
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { chargeCents, formatKes } from '../../../domain/money.ts';
import { nairobiDay } from '../../../domain/nairobi-time.ts';
import { TextField } from '../../ui/field.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { focusFirstProblem } from '../dialogs/focus-first-problem.ts';
import { InlineFooter } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { formatDay } from '../ui/time/dates.ts';
import { dayAfter } from '../ui/time/nairobi-day.ts';
import type { WholeOrder } from './order-queries.ts';

/** The longest that staff can agree ahead, as in the database. */
const mostDays = 60;

/** Orders that wait for an agreement, the newest first; undefined until loaded. */
export function useOrdersToAgree() {
  const { tables } = useMember().staff;
  const may = useMay();
  return useQuery({
    queryKey: ['orders', 'to agree'],
    enabled: may('orders'),
    queryFn: async ({ signal }) => {
      const answer = await tables
        .from('orders')
        .select('id', { count: 'exact' })
        .eq('awaits_agreement', true)
        .neq('status', 'cancelled')
        .order('created_at', { ascending: false })
        .limit(1)
        .abortSignal(signal);
      const [newest] = dataOf(answer);
      return { newest, count: answer.count ?? 0 };
    },
  }).data;
}

/** What was agreed, and the form to agree on it or to change it. */
export function Agreement({ order }: { order: WholeOrder }) {
  const may = useMay();
  const [isChanging, setChanging] = useState(false);
  const { awaits_agreement: isOpen, delivery_day: day } = order;
  if ((!isOpen && !day) || order.status === 'cancelled') return null;
  const mayChange = may('orders') && order.status !== 'delivered';
  if (isOpen || isChanging) {
    return (
      <div className="my-3 rounded-md border border-ember-200 bg-ember-50 px-4 py-3">
        <p className="font-semibold">
          {isOpen ? 'Agree on fee and day with the customer' : 'Change what was agreed'}
        </p>
        <p className="mb-3 text-sm text-ink-soft">
          {order.area_name ?? 'This order'}.{' '}
          {order.payment_status === 'unpaid'
            ? 'The customer pays afterwards: by the link that we send then, or by your prompt.'
            : 'It is paid already, so its fee stays.'}
        </p>
        {mayChange ? <AgreementForm order={order} onDone={() => setChanging(false)} /> : null}
      </div>
    );
  }
  return (
    <p className="my-2 flex flex-wrap items-baseline gap-x-3 text-sm">
      <span>
        Agreed for <b>{day ? formatDay(day) : null}</b>, delivery{' '}
        <b>{order.delivery_fee === 0 ? 'free' : formatKes(order.delivery_fee)}</b>
      </span>
      {mayChange ? (
        <button type="button" onClick={() => setChanging(true)} className="tap font-semibold underline">
          Change
        </button>
      ) : null}
    </p>
  );
}

function AgreementForm({ order, onDone }: { order: WholeOrder; onDone(): void }) {
  const { tables } = useMember().staff;
  const id = useId();
  const isFixed = order.payment_status !== 'unpaid' || order.payments.length > 0;
  const [initial] = useState({
    fee: order.awaits_agreement && !isFixed ? '' : String(order.delivery_fee / 100),
    day: order.delivery_day ?? '',
  });
  const [fee, setFee] = useState(initial.fee);
  const [day, setDay] = useState(initial.day);
  const unsaved = useUnsaved(fee !== initial.fee || day !== initial.day);
  const [isChecked, setChecked] = useState(false);
  const [today] = useState(() => nairobiDay(Date.now()));
  const feeCents = /^\d{1,6}$/.test(fee.trim()) ? Number(fee.trim()) * 100 : null;
  const isDay = day >= today && day <= dayAfter(today, mostDays);
  const total = feeCents === null ? null : order.total_amount - order.delivery_fee + feeCents;
  const save = useSave({
    write: async (agreed: { fee_cents: number; delivery_day: string }) =>
      dataOf(await tables.rpc('agree_delivery', { order_id: order.id, ...agreed })),
    success:
      order.payment_status === 'unpaid'
        ? `Agreed. ${order.customer_name} can pay ${order.order_number} now`
        : `Agreed: ${order.order_number} is paid already`,
    failure: 'Failed to save what was agreed',
    refresh: ['orders', 'messages'],
    onSuccess() {
      unsaved.note(false);
      onDone();
    },
  });
  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    if (save.isPending) return;
    setChecked(true);
    if (feeCents !== null && isDay) {
      save.mutate({ fee_cents: feeCents, delivery_day: day });
      return;
    }
    focusFirstProblem(event.currentTarget);
  }
  return (
    <form id={id} onSubmit={submit} noValidate className="grid gap-3">
      <div className="grid items-start gap-3 sm:grid-cols-2">
        <TextField
          label="Delivery fee (KES)"
          name="fee"
          required
          inputMode="numeric"
          autoComplete="off"
          disabled={isFixed}
          value={fee}
          hint={
            isFixed
              ? 'A payment has begun, so it stays'
              : total === null
                ? '0 means free'
                : `${formatKes(chargeCents(total))} in all`
          }
          problem={isChecked && feeCents === null ? 'A fee is whole shillings. 0 means free' : undefined}
          onChange={(event) => setFee(event.target.value)}
        />
        <TextField
          label="Day of delivery"
          name="day"
          type="date"
          required
          min={today}
          max={dayAfter(today, mostDays)}
          value={day}
          problem={isChecked && !isDay ? `A day from today to ${mostDays} days on` : undefined}
          onChange={(event) => setDay(event.target.value)}
        />
      </div>
      <InlineFooter
        unsaved={unsaved}
        label={
          save.isPending
            ? 'Saving...'
            : !order.awaits_agreement
              ? 'Save'
              : order.payment_status === 'unpaid'
                ? 'Agreed: let them pay'
                : 'Agreed'
        }
        isBusy={save.isPending}
        onCancel={order.awaits_agreement ? undefined : onDone}
      />
    </form>
  );
}
