// "Test with KSh 1": a prompt to the member's own phone, its result, and a button to refund the shilling.
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { isOpenAttempt } from '../../../domain/mpesa/payment-result.ts';
import type { Setup } from '../../../domain/mpesa/payment-setup.ts';
import { adviseOnResult } from '../../../domain/mpesa/result-advice.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import type { Database, PaymentStatus } from '../../../supabase/types.ts';
import { ShownError } from '../../lib/shown-error.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { dataOf, messageForUser } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useInstallation } from '../layout/use-installation.ts';
import { lastRefund, touchedByRefunds } from '../orders/refunds/refund-queries.ts';
import { RefundState } from '../orders/refunds/refund-state.tsx';
import { formatDateTime } from '../ui/time/dates.ts';

type PaymentTest = Database['public']['Tables']['payments']['Row'];

function useLastTest() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['payment-tests', 'last'],
    queryFn: async ({ signal }) =>
      dataOf(
        await tables
          .from('payments')
          .select('*, refunds(*)')
          .eq('purpose', 'test')
          .order('created_at', { ascending: false })
          .limit(1)
          .abortSignal(signal),
      )[0] ?? null,
    // The live channel reports the result; polling works without the channel.
    refetchInterval: ({ state }) => (state.data && isOpenAttempt(state.data.status) ? 2000 : false),
    staleTime: 0,
  });
}

export function ShillingTest({ setup }: { setup: Setup }) {
  const { staff } = useMember();
  const queries = useQueryClient();
  const { phonePageUrl } = useInstallation();
  const [phone, setPhone] = useState('');
  const [problem, setProblem] = useState<string>();
  const { data: last } = useLastTest();
  const start = useMutation({
    mutationFn: async () => {
      const answer = await staff.callPayments<{ test?: PaymentTest; error?: string }>({
        action: 'start-test',
        phoneNumber: phone,
      });
      if (!answer.test) throw new ShownError(answer.error ?? 'The test could not be started');
    },
    onError: (error) => setProblem(messageForUser(error) || 'The test could not be started'),
    onSettled: () =>
      Promise.all(
        ['payment-tests', 'payment-health'].map((word) => queries.invalidateQueries({ queryKey: [word] })),
      ),
  });
  const isWaiting = last !== null && last !== undefined && isOpenAttempt(last.status);

  function submit(event: FormEvent) {
    event.preventDefault();
    if (!normalisePhone(phone)) {
      setProblem('Please enter a valid phone number');
      return;
    }
    setProblem(undefined);
    start.mutate();
  }

  return (
    <Card
      title="Test with KSh 1"
      description="Prompts your own phone for one shilling, the way a customer is prompted. It pays no order, stays out of the shop's figures, and can be sent back to you."
    >
      <form onSubmit={submit} noValidate className="grid max-w-md gap-4">
        <TextField
          label="Your phone"
          required
          type="tel"
          autoComplete="tel"
          value={phone}
          onChange={(event) => setPhone(event.target.value)}
          disabled={start.isPending}
          problem={problem}
          hint="0712 345 678 or 254712345678"
        />
        <div>
          <Button type="submit" isBusy={start.isPending || isWaiting}>
            {start.isPending
              ? 'Sending...'
              : isWaiting
                ? 'Waiting for the PIN...'
                : 'Send a prompt for KSh 1'}
          </Button>
        </div>
        {phonePageUrl ? (
          <p className="text-sm text-ink-soft">
            M-PESA is simulated: the prompt appears on the{' '}
            <a href={phonePageUrl} target="_blank" rel="noreferrer" className="font-semibold underline">
              practice phone
              <span className="sr-only"> (opens in a new tab)</span>
            </a>
            .
          </p>
        ) : null}
      </form>
      <div aria-live="polite">{last ? <TestState test={last} setup={setup} /> : null}</div>
    </Card>
  );
}

const waiting: Record<Exclude<PaymentStatus, 'completed' | 'failed'>, string> = {
  initiating: 'The prompt is being sent.',
  processing: 'The prompt is on its way: enter the PIN on the phone.',
  review: 'M-PESA reported another amount than KSh 1. Look at the log.',
  unresolved: 'M-PESA never reported how it ended. The money may still come.',
};

function TestState({
  test,
  setup,
}: {
  test: PaymentTest & { refunds: Database['public']['Tables']['refunds']['Row'][] };
  setup: Setup;
}) {
  const { tables } = useMember().staff;
  const sendBack = useSave({
    write: async () =>
      dataOf(await tables.rpc('request_refund', { payment_id: test.id, reason: 'Test with KSh 1' })),
    success: 'The refund of the shilling is requested',
    failure: 'Failed to ask for the refund',
    isUnsafeToRepeat: true,
    refresh: touchedByRefunds,
  });
  const refund = lastRefund(test.refunds);
  const advice = adviseOnResult(test.result_code, test.result_description);
  return (
    <div className="mt-5 grid gap-3 border-t border-line pt-4">
      <p className="text-sm text-ink-soft">
        {formatPhone(test.phone)} · {formatDateTime(test.created_at)}
      </p>
      {test.status === 'completed' ? (
        <>
          <p className="font-bold text-success">
            The shilling came. Customers can pay.
            {test.receipt ? ` Receipt ${test.receipt}` : ''}
          </p>
          {test.receipt ? null : (
            <p className="text-sm text-danger">
              M-PESA's callback has not arrived; the shop had to ask for the result. Test the public address
              above.
            </p>
          )}
        </>
      ) : test.status === 'failed' ? (
        <div>
          <p className="font-bold text-danger">
            {advice.what}
            {test.result_code ? ` (code ${test.result_code})` : ''}
          </p>
          <p className="text-sm">{advice.advice}</p>
        </div>
      ) : (
        <p className="font-semibold">{waiting[test.status] ?? test.status}</p>
      )}
      {refund ? <RefundState refund={refund} order={null} /> : null}
      {test.status === 'completed' && test.receipt && (!refund || refund.status === 'failed') ? (
        setup.canReverse ? (
          <div>
            <Button tone="quiet" isBusy={sendBack.isPending} onClick={() => sendBack.mutate()}>
              Send the shilling back
            </Button>
          </div>
        ) : (
          <p className="text-sm text-ink-soft">
            It stays with the shop: without MPESA_INITIATOR_NAME nothing can be sent back from here.
          </p>
        )
      ) : null}
    </div>
  );
}
