// Personal data of one customer: found by phone or e-mail, exported or erased, and logged.

import { type FormEvent, useRef, useState } from 'react';
import { Link, useSearchParams } from 'react-router';
import type { PersonalDataRequestKind } from '../../../supabase/types.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { messageForUser } from '../data/table-answer.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { labelOf } from '../status/label-of.ts';
import { PageHeading } from '../ui/page-heading.tsx';
import { NameInHistory } from '../ui/staff-name.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import type { Route } from './+types/customer-data-page.ts';
import { type ErasedData, useFind, useRequests } from './customer-data-queries.ts';
import { EraseDialog } from './erase-dialog.tsx';
import { HeldData } from './held-data.tsx';
import { identifierOf } from './identifier.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Customer data');

export default function CustomerDataPage() {
  const find = useFind();
  const [parameters] = useSearchParams();
  const [typed, setTyped] = useState(parameters.get('person') ?? '');
  const [problem, setProblem] = useState<string>();
  const [isConfirming, setConfirming] = useState(false);
  const [outcome, setOutcome] = useState<ErasedData | null>(null);
  const field = useRef<HTMLFormElement>(null);

  function look(text: string) {
    setOutcome(null);
    setTyped(text);
    const identifier = identifierOf(text);
    if (identifier === null) {
      setProblem('Please enter a Kenyan mobile number or an email address');
      (field.current?.elements.namedItem('identifier') as HTMLElement | null)?.focus();
      return;
    }
    setProblem(undefined);
    find.mutate(identifier);
  }

  return (
    <div className="grid max-w-4xl grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading up={{ to: '/admin/settings?section=data', name: 'Settings' }} heading="Customer data">
        A customer asks for a copy of their data, or to be erased. First make sure that the phone or email is
        theirs: call it, or answer to it. Every search is logged.
      </PageHeading>
      <form
        ref={field}
        noValidate
        aria-label="Find a person"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          look(typed);
        }}
        className="flex max-w-xl flex-wrap items-end gap-3"
      >
        <div className="min-w-60 flex-1">
          <TextField
            label="Phone or email"
            name="identifier"
            required
            autoComplete="off"
            maxLength={254}
            value={typed}
            problem={problem}
            onChange={({ target }) => {
              setTyped(target.value);
              setProblem(undefined);
            }}
          />
        </div>
        <Button type="submit" isBusy={find.isPending}>
          Find
        </Button>
      </form>
      {find.error ? (
        <Notice tone="danger" title="The search did not work">
          {messageForUser(find.error) || 'Please check the connection and try again.'}
        </Notice>
      ) : null}
      {outcome ? <Outcome outcome={outcome} /> : null}
      {find.data && !outcome ? (
        <HeldData held={find.data} onFind={look} onErase={() => setConfirming(true)} />
      ) : null}
      <EraseDialog
        held={isConfirming && find.data ? find.data : null}
        onClose={() => setConfirming(false)}
        onErased={(erased) => {
          setConfirming(false);
          setTyped('');
          setOutcome(erased);
          find.reset();
        }}
      />
      <Log />
    </div>
  );
}

function Outcome({ outcome: { erased, postponed } }: { outcome: ErasedData }) {
  const count = (number: number, one: string, many: string) => `${number} ${number === 1 ? one : many}`;
  return (
    <Card title="Erased">
      <div className="grid gap-4" role="status">
        <p>
          {[
            count(erased.orders, 'order', 'orders'),
            count(erased.payments_for_others, 'payment for another customer', 'payments for other customers'),
            count(erased.inquiries, 'inquiry', 'inquiries'),
            count(erased.newsletter, 'newsletter subscription', 'newsletter subscriptions'),
          ].join(', ')}
          .
        </p>
        {postponed.length > 0 ? (
          <div>
            <p className="font-semibold">Not yet:</p>
            <ul className="mt-1 grid gap-1 text-sm">
              {postponed.map(({ id, order_number, reason, is_own }) => (
                <li key={id}>
                  <Link to={`/admin/orders/${id}`} className="tap font-semibold underline">
                    {order_number}
                  </Link>
                  : {reason}.{' '}
                  {is_own
                    ? 'It is erased automatically after that.'
                    : 'It is the order of another customer that this phone paid: repeat the request later.'}
                </li>
              ))}
            </ul>
          </div>
        ) : null}
      </div>
    </Card>
  );
}

const kinds: Record<PersonalDataRequestKind, string> = { export: 'Searched', erasure: 'Erased' };

function Log() {
  const { data: requests } = useRequests();
  if (!requests?.length) return null;
  return (
    <Card
      title="Last requests"
      description="Without names: only the database knows which requests are about the same person."
    >
      <ul className="grid gap-2 text-sm">
        {requests.map(({ id, kind, counts, requested_by_email, requested_at }) => (
          <li key={id} className="flex flex-wrap justify-between gap-x-6">
            <span>
              <strong>{labelOf(kinds, kind)}</strong> {describeCounts(counts)}
            </span>
            <span className="text-ink-soft">
              <NameInHistory email={requested_by_email} otherwise="The shop itself" />,{' '}
              {formatDateTime(requested_at)}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Such as `orders: 2, inquiries: 1`. */
function describeCounts(counts: unknown): string {
  const found = Object.entries((counts ?? {}) as Record<string, number>).filter(([, count]) => count > 0);
  return found.map(([what, count]) => `${what.replaceAll('_', ' ')}: ${count}`).join(', ') || 'nothing found';
}
