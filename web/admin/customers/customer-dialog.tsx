// The page of a customer, above the list: orders, spending, credit, notes of staff, and whether the phone is blocked.
import { type FormEvent, useState } from 'react';
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { formatKes, shownAmount } from '../../../domain/money.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { InlineFooter } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { Part } from '../orders/part.tsx';
import { PaymentBadge } from '../orders/payments/payment-badge.tsx';
import { isReasonRefused, ReasonForm } from '../orders/payments/reason-form.tsx';
import { drinksOf } from '../orders/place.ts';
import { StatusBadge } from '../status/status-badge.tsx';
import { ContactLink, callTo, chatTo } from '../ui/contact-link.tsx';
import { NameInHistory } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { useLastValue } from '../ui/use-last-value.ts';
import { CustomerBadges } from './customer-badges.tsx';
import { type ShownCustomer, useCustomer, useOrdersOfCustomer } from './customer-queries.ts';

interface CustomerDialogProps {
  /** As in the address; null: closed. */
  phone: string | null;
  onClose(): void;
}

export function CustomerDialog({ phone, onClose }: CustomerDialogProps) {
  const shown = useLastValue(phone);
  return (
    <DialogOrDrawer size="wide" hasOwnEntry={false} open={phone !== null} onClose={onClose}>
      {shown ? <Customer key={shown} phone={shown} onClose={onClose} /> : null}
    </DialogOrDrawer>
  );
}

function Customer({ phone, onClose }: { phone: string; onClose(): void }) {
  const { data: customer, error, isFetching, refetch } = useCustomer(phone);
  if (normalisePhone(phone) === null) {
    return (
      <>
        <DialogHeading title="This is no phone number" description="The address may be mistyped." />
        <DialogBody>
          <Button tone="quiet" onClick={onClose}>
            Back to the list
          </Button>
        </DialogBody>
      </>
    );
  }
  if (customer) return <Whole customer={customer} />;
  return (
    <>
      <DialogHeading
        title={formatPhone(phone)}
        description={error ? 'It could not be loaded' : 'It is being loaded'}
      />
      <DialogBody>
        {error ? (
          <div className="grid justify-items-start gap-4 pb-2">
            <Notice tone="danger" title="This customer could not be loaded">
              Please check the connection and try again.
            </Notice>
            <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
              Try again
            </Button>
          </div>
        ) : (
          <div className="grid min-h-60 place-items-center">
            <Spinner label="Loading customer..." />
          </div>
        )}
      </DialogBody>
    </>
  );
}

function Whole({ customer }: { customer: ShownCustomer }) {
  const { phone, name, email, orders, cancelled, spent_cents, credit_cents, first_order_at } = customer;
  const may = useMay();
  const who = name ?? formatPhone(phone);
  const sums: [string, string][] = [
    ['Orders', `${formatCount(orders)}${cancelled > 0 ? `, ${cancelled} cancelled` : ''}`],
    ['Spent', formatKes(spent_cents)],
    ['Credit', credit_cents > 0 ? formatKes(credit_cents) : 'None'],
    ['Customer since', first_order_at ? formatDateTime(first_order_at) : 'No order yet'],
  ];
  return (
    <>
      <DialogHeading
        title={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-1">
            {who} <CustomerBadges customer={customer} />
          </span>
        }
        description={[name ? formatPhone(phone) : 'No order has this phone', email]
          .filter(Boolean)
          .join(' · ')}
      />
      <DialogBody>
        <div className="grid grid-cols-[minmax(0,1fr)] gap-3 pb-2 md:gap-4">
          <div className="grid grid-cols-2 gap-2 sm:grid-cols-3">
            <ContactLink
              href={callTo(phone)}
              icon="phone"
              label="Call"
              who={who}
              className="min-h-12! px-2!"
            />
            <ContactLink
              href={chatTo(phone)}
              icon="chat"
              label="WhatsApp"
              who={who}
              className="min-h-12! px-2!"
            />
            <Link
              to={`/admin/orders/new?phone=${encodeURIComponent(phone)}`}
              className={`${buttonStyle('leaf')} min-h-12! px-2! max-sm:col-span-2`}
            >
              New order
            </Link>
          </div>
          <Part title="In numbers">
            <dl className="grid grid-cols-2 gap-x-4 gap-y-2 text-sm sm:grid-cols-4">
              {sums.map(([term, value]) => (
                <div key={term}>
                  <dt className="text-ink-soft">{term}</dt>
                  <dd className="font-bold tabular-nums">{value}</dd>
                </div>
              ))}
            </dl>
            {credit_cents > 0 ? (
              <p className="mt-3 text-sm text-ink-soft">
                The credit is offered in the next unpaid order of this phone. To give it back, open its order
                in{' '}
                <Link to="/admin/reconciliation/kept" className="tap font-semibold underline">
                  Kept for customers
                </Link>
                .
              </p>
            ) : null}
          </Part>
          <Notes key={customer.notes_at} customer={customer} />
          <Orders phone={phone} />
          <Block customer={customer} who={who} />
          {may('personal_data') ? (
            <p className="text-sm text-ink-soft">
              A copy of everything stored, or erasing it:{' '}
              <Link
                to={`/admin/settings/customer-data?person=${encodeURIComponent(phone)}`}
                className="tap font-semibold underline"
              >
                Customer data
              </Link>
            </p>
          ) : null}
        </div>
      </DialogBody>
    </>
  );
}

function Notes({ customer: { phone, notes, notes_by, notes_at } }: { customer: ShownCustomer }) {
  const { tables } = useMember().staff;
  const [typed, setTyped] = useState(notes ?? '');
  const isChanged = typed.trim() !== (notes ?? '');
  const unsaved = useUnsaved(isChanged);
  const save = useSave<void>({
    write: async () =>
      dataOf(
        await tables.rpc('note_customer', { phone, notes: typed, seen_at: notes_at }),
      ) as unknown as undefined,
    success: 'The notes are saved',
    failure: 'Failed to save the notes',
    refresh: ['customers'],
    onSuccess: () => unsaved.note(false),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (isChanged && !save.isPending) save.mutate();
  }
  return (
    <Part title="Notes for staff">
      <form onSubmit={submit} noValidate className="grid gap-3">
        <TextArea
          label="What colleagues should know"
          hint="Only staff see this. It is part of a copy of the customer's data."
          name="notes"
          rows={3}
          maxLength={1000}
          value={typed}
          disabled={save.isPending}
          onChange={({ target }) => setTyped(target.value)}
        />
        {notes_at ? (
          <p className="text-sm text-ink-soft">
            <NameInHistory email={notes_by} otherwise="Staff" /> · {formatDateTime(notes_at)}
          </p>
        ) : null}
        {unsaved.isBlocked || isChanged ? (
          <InlineFooter
            unsaved={unsaved}
            label="Save notes"
            isBusy={save.isPending}
            onCancel={() => setTyped(notes ?? '')}
          />
        ) : null}
      </form>
    </Part>
  );
}

function Orders({ phone }: { phone: string }) {
  const { data: orders, error, refetch, isFetching } = useOrdersOfCustomer(phone);
  return (
    <Part title="Newest orders">
      {orders ? (
        orders.length === 0 ? (
          <p className="text-sm text-ink-soft">None. Orders that were erased are no longer anyone's.</p>
        ) : (
          <ul className="grid">
            {orders.map((order) => (
              <li key={order.id} className="grid gap-0.5 border-b border-line py-2 text-sm last:border-b-0">
                <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
                  <Link to={`/admin/orders/${order.id}`} className="tap font-semibold underline">
                    {order.order_number}
                  </Link>
                  <StatusBadge status={order.status} isSmall />
                  <PaymentBadge order={order} />
                  <span className="ml-auto whitespace-nowrap tabular-nums">
                    {formatKes(shownAmount(order.total_amount, order.payment_status))}
                  </span>
                </p>
                <p className="wrap-anywhere text-ink-soft">
                  {drinksOf(order.order_items)} · {formatDateTime(order.created_at)}
                </p>
              </li>
            ))}
          </ul>
        )
      ) : error ? (
        <p role="alert" className="flex flex-wrap items-center gap-3 text-sm text-danger">
          The orders could not be loaded.
          <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
            Try again
          </Button>
        </p>
      ) : (
        <Spinner label="Loading orders..." />
      )}
    </Part>
  );
}

function Block({ customer, who }: { customer: ShownCustomer; who: string }) {
  const { phone, is_blocked, block_reason, blocked_by, blocked_at } = customer;
  const { tables } = useMember().staff;
  const [isOpen, setOpen] = useState(false);
  const [isAsking, setAsking] = useState(false);
  const block = useSave<string>({
    write: async (reason) =>
      dataOf(await tables.rpc('block_phone', { phone, reason })) as unknown as undefined,
    success: `${formatPhone(phone)} is blocked`,
    failure: 'Failed to block the phone',
    refresh: ['customers'],
    onSuccess: () => setOpen(false),
    isShownElsewhere: isReasonRefused,
  });
  const unblock = useSave<void>({
    write: async () => dataOf(await tables.rpc('unblock_phone', { phone })) as unknown as undefined,
    success: `${formatPhone(phone)} can order again`,
    failure: 'Failed to unblock the phone',
    refresh: ['customers'],
    onSuccess: () => setAsking(false),
  });
  if (is_blocked) {
    return (
      <Part title="Blocked">
        <div className="grid justify-items-start gap-3 text-sm">
          <p className="wrap-anywhere">
            {block_reason ? `“${block_reason}”` : 'The reason was erased with the customer’s data.'}{' '}
            <span className="text-ink-soft">
              <NameInHistory email={blocked_by} otherwise="Staff" />
              {blocked_at ? ` · ${formatDateTime(blocked_at)}` : ''}
            </span>
          </p>
          <p className="text-ink-soft">
            The storefront takes no orders for this phone, and says how to reach you. You can still enter one.
          </p>
          <Button tone="quiet" onClick={() => setAsking(true)} aria-haspopup="dialog">
            Unblock
          </Button>
        </div>
        <ConfirmDialog
          open={isAsking}
          title={`Unblock ${formatPhone(phone)}?`}
          text={`${who} can place orders on the storefront again.`}
          confirm="Unblock"
          tone="leaf"
          isBusy={unblock.isPending}
          onConfirm={() => unblock.mutate()}
          onCancel={() => setAsking(false)}
        />
      </Part>
    );
  }
  return (
    <Part title="Block">
      {isOpen ? (
        <ReasonForm
          label="Block this phone"
          text="The storefront then takes no orders for this phone, and says how to reach you. Its present orders stay."
          confirm={`Block ${formatPhone(phone)}`}
          hint="Only staff see it."
          tone="danger"
          error={block.error}
          isBusy={block.isPending}
          onConfirm={(reason) => block.mutate(reason)}
          onCancel={() => setOpen(false)}
        />
      ) : (
        <Button tone="quiet" onClick={() => setOpen(true)}>
          Block this phone
        </Button>
      )}
    </Part>
  );
}
