// Whether M-PESA can reach the shop: checks the public URL and calls it.
import { useMutation } from '@tanstack/react-query';
import type { Reach, ReachStep, Setup } from '../../../domain/mpesa/payment-setup.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Notice } from '../../ui/notice.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { labelOf } from '../status/label-of.ts';

const stepLabels: Record<ReachStep, string> = {
  Name: 'The name is found (DNS)',
  Connection: 'The connection is made',
  Certificate: 'The certificate is trusted (TLS)',
  Status: 'The answer has the right status',
  Answer: 'It is this shop that answered',
};

export function AddressCheck({ setup }: { setup: Setup }) {
  const { staff } = useMember();
  const check = useMutation({
    mutationFn: async () => (await staff.callPayments<{ reach: Reach }>({ action: 'check-address' })).reach,
    onError: (error) => console.warn('The public address could not be tested', error),
  });
  const reach = check.data;
  return (
    <Card
      title="Public address"
      description="M-PESA reports each payment to this address, followed by a secret that differs for each payment. If M-PESA can't reach it, the shop has to ask, and payments show up late."
    >
      <p className="font-semibold break-all">{setup.callbackUrl}/…</p>
      {setup.callbackUrlProblems.length > 0 ? (
        <ul className="mt-3 grid gap-2 text-sm">
          {setup.callbackUrlProblems.map(({ isFatal, sentence }) => (
            <li key={sentence} className={isFatal ? 'text-danger' : 'text-ink-soft'}>
              <strong>{isFatal ? 'M-PESA cannot use it: ' : 'Worth knowing: '}</strong>
              {sentence}
            </li>
          ))}
          {setup.environment === 'simulator' ? (
            <li className="text-ink-soft">
              The simulator runs on this machine, so it can reach the address.
            </li>
          ) : null}
        </ul>
      ) : (
        <p className="mt-3 text-sm text-ink-soft">The address looks right.</p>
      )}
      <Button tone="quiet" className="mt-4" isBusy={check.isPending} onClick={() => check.mutate()}>
        {check.isPending ? 'Calling...' : 'Test the public address'}
      </Button>
      <div aria-live="polite">
        {check.isError ? (
          <div className="mt-4">
            <Notice tone="danger" title="The test could not be made">
              The payment service did not answer.
            </Notice>
          </div>
        ) : reach && !check.isPending ? (
          <div className="mt-4 grid gap-3">
            <p className={`font-bold ${reach.isReached ? 'text-success' : 'text-danger'}`}>
              {reach.isReached
                ? `The shop is reached, in ${reach.tookMs} ms`
                : "The shop can't be reached at this address"}
            </p>
            <ol className="grid gap-2 text-sm">
              {reach.steps.map(({ name, state, detail }) => (
                <li key={name} className={state === 'not reached' ? 'text-ink-soft' : ''}>
                  <strong className={state === 'failed' ? 'text-danger' : ''}>
                    {state === 'ok' ? 'Yes: ' : state === 'failed' ? 'No: ' : 'Not tried: '}
                  </strong>
                  {labelOf(stepLabels, name)}
                  {detail ? <span className="block break-words text-ink-soft">{detail}</span> : null}
                </li>
              ))}
            </ol>
            <p className="text-sm text-ink-soft">
              Called from this server. From outside a firewall may still be in the way: the test with KSh 1
              shows it.
            </p>
          </div>
        ) : null}
      </div>
    </Card>
  );
}
