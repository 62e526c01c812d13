// Registers the shop's addresses at M-PESA, to which it reports payments that no prompt asked for (C2B RegisterURL).
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { ShownError } from '../../lib/shown-error.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Notice } from '../../ui/notice.tsx';
import { messageForUser } from '../data/table-answer.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { usePaymentSetup } from '../orders/refunds/refund-queries.ts';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { formatDateTime } from '../ui/time/dates.ts';

interface Outcome {
  kind: 'registered' | 'already registered' | 'refused' | 'unknown' | 'not set up';
  detail?: string;
}

const outcomes: Record<Outcome['kind'], { tone: 'success' | 'danger' | 'info'; words: string }> = {
  registered: { tone: 'success', words: 'M-PESA has registered them' },
  'already registered': { tone: 'info', words: 'M-PESA had registered them before, and changed nothing' },
  refused: { tone: 'danger', words: 'M-PESA refused' },
  unknown: { tone: 'danger', words: 'M-PESA did not answer. It can be repeated' },
  'not set up': { tone: 'info', words: 'Not asked for' },
};

export function RegisterUrls() {
  const { staff } = useMember();
  const queries = useQueryClient();
  const query = usePaymentSetup();
  const setup = query.data;
  const [isAsking, setAsking] = useState(false);
  const register = useMutation({
    async mutationFn() {
      const answer = await staff.callPayments<{ till: Outcome; statement: Outcome } | { error: string }>({
        action: 'register-till',
      });
      if ('error' in answer) throw new ShownError(answer.error);
      return answer;
    },
    onError: (error) => console.warn('The addresses could not be registered', error),
    onSettled: () => queries.invalidateQueries({ queryKey: ['payment-setup'] }),
  });
  const fatal = setup?.callbackUrlProblems.find(({ isFatal }) => isFatal);
  const isSimulated = setup?.environment === 'simulator';
  const number = setup && (setup.mode === 'till' ? `till ${setup.till}` : `paybill ${setup.shortcode}`);
  return (
    <Card
      title="Payments by hand reach the shop"
      description="M-PESA reports payments to the till or paybill only to addresses that are registered once. Without them you confirm each by its receipt."
    >
      {setup ? (
        <div className="grid grid-cols-[minmax(0,1fr)] justify-items-start gap-4">
          <p>
            {setup.c2b ? (
              <>
                <strong>Registered</strong> since {formatDateTime(setup.c2b.registeredAt)}
                {setup.c2b.version ? `, by C2B ${setup.c2b.version}` : ''}.
              </>
            ) : (
              <strong>Not registered yet.</strong>
            )}
            {isSimulated ? ' M-PESA is simulated: the shop registers its addresses itself.' : ''}
          </p>
          {fatal && !isSimulated ? (
            <p className="text-sm text-ink-soft">
              It cannot be done with this address: {fatal.sentence} Change PUBLIC_URL first.
            </p>
          ) : (
            <Button
              tone={setup.c2b ? 'quiet' : 'leaf'}
              isBusy={register.isPending}
              onClick={() => setAsking(true)}
            >
              {register.isPending ? 'Registering...' : setup.c2b ? 'Register again' : 'Register at M-PESA'}
            </Button>
          )}
          <div aria-live="polite" className="grid w-full gap-3 empty:hidden">
            {register.isError ? (
              <Notice tone="danger" title="The addresses were not registered">
                {messageForUser(register.error) || 'The payment service did not answer. Please try again.'}
              </Notice>
            ) : null}
            {register.data && !register.isPending ? (
              <>
                <Answer what="Payments by hand" outcome={register.data.till} />
                <Answer what="Statement" outcome={register.data.statement} />
              </>
            ) : null}
          </div>
        </div>
      ) : (
        <ScreenLoadState noun="payment settings" queries={[query]} />
      )}
      <ConfirmDialog
        hasOwnEntry={false}
        open={isAsking}
        title={`Register the addresses of ${number}?`}
        text={
          <>
            M-PESA will report payments to <b className="break-all">{setup?.callbackUrl}</b>.{' '}
            {setup?.environment === 'production'
              ? 'It accepts addresses once: to change them later, they must first be deleted in its portal.'
              : 'No money moves.'}
          </>
        }
        tone="leaf"
        confirm="Register"
        onConfirm={() => {
          setAsking(false);
          if (!register.isPending) register.mutate();
        }}
        onCancel={() => setAsking(false)}
      />
    </Card>
  );
}

function Answer({ what, outcome: { kind, detail } }: { what: string; outcome: Outcome }) {
  const { tone, words } = outcomes[kind] ?? { tone: 'info', words: kind };
  return (
    <Notice tone={tone} title={`${what}: ${words}`}>
      {detail}
    </Notice>
  );
}
