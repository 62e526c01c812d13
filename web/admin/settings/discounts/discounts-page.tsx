// Discount codes: what they give, how often they were used and what they cost so far. A code is edited while the URL has `?edit=<id>`, or
// `?edit=new`.

import { formatKes } from '../../../../domain/money.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { useSave } from '../../data/use-save.ts';
import { useDialogOpener } from '../../dialogs/use-dialog-parameter.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { describeStaffPage } from '../../layout/staff-page.ts';
import { CardList } from '../../list/card-list.tsx';
import { SearchBox } from '../../list/list-toolbar.tsx';
import { noneFound } from '../../list/row-list.tsx';
import { useListFilters } from '../../list/use-list-filters.ts';
import { useShop } from '../../messages/use-shop.ts';
import { PageHeading } from '../../ui/page-heading.tsx';
import type { Route } from './+types/discounts-page.ts';
import { DiscountDialog, newDiscount } from './discount-editor.tsx';
import { changeCode, useDiscountCodes } from './discount-queries.ts';
import { type DiscountRow, describeConditions, describeValue, stateOf } from './discount-values.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Discount codes');

export default function DiscountsPage() {
  const filters = useListFilters({ search: '' });
  const { search } = filters.values;
  const codes = useDiscountCodes(search);
  const { rows } = codes;
  const hasCodes = rows.length > 0 || search !== '';
  const open = useDialogOpener('edit');
  return (
    <div className="grid max-w-6xl grid-cols-[minmax(0,1fr)] gap-5">
      <PageHeading
        up={{ to: '/admin/settings?section=payments', name: 'Settings' }}
        heading="Discount codes"
        actions={
          hasCodes ? (
            <Button onClick={() => open(newDiscount)} aria-haspopup="dialog">
              New code
            </Button>
          ) : null
        }
      >
        Off the price of the drinks, not of the delivery. Customers enter the code in their order.
      </PageHeading>
      {hasCodes ? (
        <div className="flex">
          <SearchBox
            placeholder="Search codes..."
            searched={search}
            onSearch={(text) => filters.set('search', text)}
          />
        </div>
      ) : null}
      <CardList
        label="Discount codes"
        list={codes}
        empty={
          search
            ? noneFound('discount codes', `No code has “${search}” in it.`, filters.clear)
            : {
                title: 'No discount codes yet',
                text: 'A code such as KARIBU10 gives its customers a percentage or an amount off. You decide from when, until when and how often.',
                action: (
                  <Button onClick={() => open(newDiscount)} aria-haspopup="dialog">
                    Create the first code
                  </Button>
                ),
              }
        }
      >
        {(row) => <Code key={row.id} row={row} />}
      </CardList>
      <DiscountDialog codes={rows} />
    </div>
  );
}

function Code({ row }: { row: DiscountRow }) {
  const { tables } = useMember().staff;
  const open = useDialogOpener('edit');
  const { publicUrl } = useShop();
  const state = stateOf(row, Date.now());
  const conditions = describeConditions(row);
  const toggle = useSave({
    write: (is_active: boolean) => changeCode(tables, row, { is_active }),
    success: (_, isActive) => (isActive ? `${row.code} can be used again` : `${row.code} has ended`),
    failure: 'Failed to change the code',
    refresh: ['settings'],
  });
  return (
    <li
      aria-label={row.code}
      className="grid grid-cols-[minmax(0,1fr)] items-start gap-x-6 gap-y-3 rounded-lg border border-line bg-card px-4 py-3 md:grid-cols-[minmax(0,1fr)_13.5rem] md:px-5 lg:grid-cols-[minmax(0,1.4fr)_minmax(0,1fr)_13.5rem]"
    >
      <div className="min-w-0">
        <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <h2 className="font-mono text-lg font-bold wrap-anywhere">{row.code}</h2>
          <Badge tone={state.tone} isSmall>
            {state.label}
          </Badge>
        </div>
        <p className="text-sm">
          <span className="font-semibold">{describeValue(row)}</span>
          {conditions ? <span className="text-ink-soft"> · {conditions}</span> : null}
        </p>
        <div className="-mb-1.5 flex flex-wrap items-center text-sm">
          <span className="mr-3 inline-flex items-center">
            <span className="text-ink-soft">Code</span>
            <CopyButton text={row.code} what={`code ${row.code}`} />
          </span>
          <span className="inline-flex items-center">
            <span className="text-ink-soft">Link</span>
            <CopyButton text={`${publicUrl}/shop?code=${row.code}`} what={`link with code ${row.code}`} />
          </span>
        </div>
      </div>
      <dl className="grid grid-cols-2 gap-x-6 text-sm tabular-nums md:max-lg:order-last lg:pt-1">
        <div>
          <dt className="text-ink-soft">Uses</dt>
          <dd className="font-semibold">
            {row.uses}
            {row.max_uses === null ? '' : ` of ${row.max_uses}`}
          </dd>
          {row.waiting > 0 ? <dd className="text-xs text-ink-soft">{row.waiting} not paid yet</dd> : null}
        </div>
        <div>
          <dt className="text-ink-soft">Cost so far</dt>
          <dd className="font-semibold">{formatKes(row.cost_cents)}</dd>
          {row.sold_cents > 0 ? (
            <dd className="text-xs text-ink-soft">in orders of {formatKes(row.sold_cents)}</dd>
          ) : null}
        </div>
      </dl>
      <div className="flex flex-wrap gap-2 max-md:*:grow md:justify-end">
        <Button
          tone="quiet"
          isBusy={toggle.isPending}
          onClick={() => toggle.mutate(!row.is_active)}
          aria-label={`${row.is_active ? 'End' : 'Start again'}: ${row.code}`}
        >
          {row.is_active ? 'End' : 'Start again'}
        </Button>
        <Button
          tone="quiet"
          onClick={() => open(row.id)}
          aria-haspopup="dialog"
          aria-label={`Edit: ${row.code}`}
        >
          Edit
        </Button>
      </div>
    </li>
  );
}
