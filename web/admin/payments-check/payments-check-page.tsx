// "M-PESA check": the settings, the last contact, whether M-PESA can reach the shop, and a test with one shilling.

import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Spinner } from '../../ui/spinner.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { usePaymentSetup } from '../orders/refunds/refund-queries.ts';
import { labelOf } from '../status/label-of.ts';
import { CardColumns } from '../ui/card-columns.tsx';
import { BoldFact } from '../ui/fact.tsx';
import { PageHeading } from '../ui/page-heading.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import type { Route } from './+types/payments-check-page.ts';
import { AddressCheck } from './address-check.tsx';
import { LastContact } from './last-contact.tsx';
import { PromptPause } from './prompt-pause.tsx';
import { ShillingTest } from './shilling-test.tsx';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'M-PESA check');

const environments = {
  simulator: 'Simulated: no money moves',
  sandbox: "M-PESA's test system: no money moves",
  production: 'Live: real money',
};

export default function PaymentsCheckPage() {
  const { data: setup, error, isFetching, refetch } = usePaymentSetup();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading up={{ to: '/admin/settings?section=payments', name: 'Settings' }} heading="M-PESA check">
        Whether customers can pay, and what to look at when they cannot. Secrets are never shown.
      </PageHeading>
      <PromptPause />
      {setup ? (
        <CardColumns>
          <Card title="Settings">
            <dl className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
              <BoldFact term="Environment">{labelOf(environments, setup.environment)}</BoldFact>
              <BoldFact term="Customers pay to">
                {setup.mode === 'till' ? `Till ${setup.till}` : `Paybill ${setup.shortcode}`}
              </BoldFact>
              {setup.mode === 'till' ? <BoldFact term="Store number">{setup.shortcode}</BoldFact> : null}
              <BoldFact term="Payments by hand are reported">
                {setup.c2b
                  ? `Since ${formatDateTime(setup.c2b.registeredAt)}${setup.c2b.version ? `, by C2B ${setup.c2b.version}` : ''}`
                  : 'Not registered yet (Settings, Payments)'}
              </BoldFact>
            </dl>
            <ul className="mt-4 grid gap-2 border-t border-line pt-4 text-sm">
              {setup.configured.map(({ name, isSet, what }) => (
                <li key={name} className="flex items-baseline justify-between gap-x-4">
                  <span>
                    <code className="font-semibold break-all">{name}</code>{' '}
                    <span className="text-ink-soft">{what}</span>
                  </span>
                  <span className={`shrink-0 font-semibold ${isSet ? 'text-success' : 'text-ink-soft'}`}>
                    {isSet ? 'Set' : 'Not set'}
                  </span>
                </li>
              ))}
            </ul>
            {setup.canReverse ? null : (
              <p className="mt-4 text-sm text-ink-soft">
                Without an initiator money cannot be sent back from here; it can be noted when it was sent
                back by hand.
              </p>
            )}
          </Card>
          <LastContact />
          <AddressCheck setup={setup} />
          <ShillingTest setup={setup} />
        </CardColumns>
      ) : error ? (
        <div className="grid justify-items-start gap-3">
          <Notice tone="danger" title="The payment settings could not be read">
            The payment service did not answer. Nothing was changed.
          </Notice>
          <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
            Try again
          </Button>
        </div>
      ) : (
        <div className="grid min-h-64 place-items-center">
          <Spinner label="Reading the payment settings..." />
        </div>
      )}
    </div>
  );
}
