// How an order that waits for its payment gets paid: a prompt on the customer's phone, or a link. A payment to the till is beside it
// (`confirm-till-payment.tsx`).
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { isOpenAttempt } from '../../../../domain/mpesa/payment-result.ts';
import { formatPhone, normalisePhone } from '../../../../domain/people/phone.ts';
import { ShownError } from '../../../lib/shown-error.ts';
import { Button } from '../../../ui/button.tsx';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { inputStyle } from '../../../ui/field.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { messageForUser } from '../../data/table-answer.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { useMessagesOf } from '../../messages/message-queries.ts';
import { messageState } from '../../messages/message-texts.ts';
import { useShop } from '../../messages/use-shop.ts';
import { ContactLink, chatTo } from '../../ui/contact-link.tsx';
import { formatClock } from '../../ui/time/dates.ts';
import type { WholeOrder } from '../order-queries.ts';
import { plainFailure } from '../timeline/order-event-texts.ts';
import { usePayLink } from './pay-link.ts';

/** Whether a customer can still pay an order, and its money is not in doubt. */
export const waitsForPayment = ({
  status,
  payment_status,
  payments,
  anonymised_at,
  awaits_agreement,
}: WholeOrder): boolean =>
  payment_status === 'unpaid' &&
  status !== 'cancelled' &&
  anonymised_at === null &&
  !awaits_agreement &&
  !payments.some((payment) => payment.status === 'review');

export function WaysToPay({ order }: { order: WholeOrder }) {
  if (!waitsForPayment(order)) return null;
  return (
    <div className="mt-2 grid gap-3 border-t border-line pt-3">
      <Prompt order={order} />
      <PayLink order={order} />
    </div>
  );
}

interface InitiateAnswer {
  success: boolean;
  error?: string;
  /** Masked, if the prompt is open on another phone than the requested one. */
  promptedPhone?: string;
}

function Prompt({ order }: { order: WholeOrder }) {
  const { staff } = useMember();
  const queries = useQueryClient();
  const id = useId();
  const [phone, setPhone] = useState(formatPhone(order.customer_phone));
  const [problem, setProblem] = useState<string>();
  const newest = order.payments.find(({ method }) => method === 'prompt');
  const isOpen = newest !== undefined && isOpenAttempt(newest.status);
  const send = useMutation({
    mutationFn: async () => {
      const answer = await staff.callPayments<InitiateAnswer>({
        action: 'initiate',
        byStaff: true,
        phoneNumber: phone,
        amount: order.total_amount,
        trackingNumber: order.tracking_number,
        orderId: order.id,
      });
      if (!answer.success) throw new ShownError(answer.error ?? 'The prompt could not be sent');
      return answer;
    },
    onError: (error) => setProblem(messageForUser(error) || 'The prompt could not be sent'),
    onSettled: () =>
      Promise.all(
        ['orders', 'messages', 'payment-health'].map((word) =>
          queries.invalidateQueries({ queryKey: [word] }),
        ),
      ),
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    if (send.isPending || isOpen) return;
    if (!normalisePhone(phone)) {
      setProblem('Please enter a valid phone number');
      return;
    }
    setProblem(undefined);
    send.mutate();
  }
  return (
    <form onSubmit={submit} noValidate aria-label="M-PESA prompt" className="grid gap-1.5">
      <label htmlFor={id} className="text-sm font-semibold">
        Phone to prompt
      </label>
      <div className="flex flex-wrap gap-2">
        <input
          id={id}
          type="tel"
          inputMode="tel"
          autoComplete="off"
          value={phone}
          disabled={send.isPending || isOpen}
          aria-invalid={problem ? true : undefined}
          aria-describedby={`${id}-state`}
          onChange={({ target }) => {
            setPhone(target.value);
            setProblem(undefined);
          }}
          className={`${inputStyle} min-h-11! w-auto! min-w-36 flex-1 px-3! py-1.5!`}
        />
        <Button type="submit" isBusy={send.isPending || isOpen} className="grow px-4!">
          Send M-PESA prompt · {formatKes(chargeCents(order.total_amount))}
        </Button>
      </div>
      <p id={`${id}-state`} role="status" className="flex items-center gap-2 text-sm empty:hidden">
        {problem ? (
          <span className="font-semibold text-danger">{problem}</span>
        ) : send.isPending ? (
          'Sending the prompt...'
        ) : isOpen ? (
          <>
            <Icon name="clock" className="size-4.5 shrink-0 text-ink-soft" />
            <span>
              Waiting for the PIN on{' '}
              <b className="whitespace-nowrap tabular-nums">
                {send.data?.promptedPhone ?? formatPhone(newest.phone)}
              </b>
            </span>
          </>
        ) : newest?.status === 'failed' ? (
          <span className="text-danger">{plainFailure(newest.result_code)}</span>
        ) : newest?.status === 'unresolved' ? (
          <span className="text-danger">
            M-PESA has not answered about the last prompt. Ask the customer before you send another.
          </span>
        ) : null}
      </p>
    </form>
  );
}

function PayLink({ order }: { order: WholeOrder }) {
  const { shop } = useShop();
  const [isWanted, setWanted] = useState(false);
  const { link, error, isFetching, refetch } = usePayLink(order.id, isWanted);
  const amount = formatKes(chargeCents(order.total_amount));
  return (
    <div className="grid gap-1.5">
      {link ? (
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="text-sm font-semibold">Pay link</span>
          <CopyButton text={link} what="pay link" />
          <ContactLink
            href={chatTo(
              order.customer_phone,
              `${shop.name}: your order ${order.order_number}, ${amount}. Pay or follow it here: ${link}`,
            )}
            icon="chat"
            label="Send by WhatsApp"
            who={order.customer_name}
            className="px-4!"
          />
        </div>
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          <Button
            tone="quiet"
            isBusy={isFetching}
            onClick={() => (error ? void refetch() : setWanted(true))}
            className="px-4!"
          >
            Pay link
          </Button>
          {error ? (
            <span role="alert" className="text-sm font-semibold text-danger">
              {messageForUser(error) || 'The link could not be read. Please try again.'}
            </span>
          ) : null}
        </div>
      )}
      <WaitingTime order={order} />
      <TextWithLink order={order} />
    </div>
  );
}

/** Until when the customer can pay, and until when the drinks are theirs. */
function WaitingTime({
  order: { status, payment_method, expires_at, reserved_until },
}: {
  order: WholeOrder;
}) {
  if (status !== 'pending' || payment_method === 'cash' || !expires_at) return null;
  const until = formatClock(expires_at, Date.now());
  return (
    <p className="text-sm">
      Can be paid until <b className="whitespace-nowrap">{until}</b>
      {reserved_until === null ? (
        '. Its drinks are not held: they are its own as soon as it is paid, if there are still enough.'
      ) : reserved_until === expires_at ? (
        ', and its drinks are held for it until then.'
      ) : (
        <>
          . Its drinks are held until{' '}
          <b className="whitespace-nowrap">{formatClock(reserved_until, Date.now())}</b>.
        </>
      )}
    </p>
  );
}

/** What became of the text that contains the link. */
function TextWithLink({ order }: { order: WholeOrder }) {
  const { data: messages } = useMessagesOf(order.id);
  const text = messages?.find(({ kind, channel }) => kind === 'order_received' && channel === 'text');
  const isQueued = order.source === 'call' || order.source === 'whatsapp' || order.payments.length > 0;
  return (
    <p className="text-sm text-ink-soft">
      {text
        ? `Text with the link to ${formatPhone(order.customer_phone)}: ${messageState(text.status)[0].toLowerCase()}${text.problem ? `. ${text.problem}` : ''}`
        : isQueued
          ? `A text with the link goes to ${formatPhone(order.customer_phone)} by itself.`
          : 'A text with the link goes out with the first prompt.'}
    </p>
  );
}
