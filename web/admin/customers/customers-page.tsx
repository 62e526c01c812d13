// The customers by phone number: search, order, and the page of one.
import { useCallback } from 'react';
import { Link, useLocation, useNavigate, useSearchParams } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { formatKes } from '../../../domain/money.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { fromThisPage, useDialogUrlClose } from '../dialogs/use-dialog-url-close.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { FilterSelect, SearchBox, SortSelect } from '../list/list-toolbar.tsx';
import { phoneCell } from '../list/phone-cell.ts';
import { type Column, ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { useRowKeys } from '../list/use-row-keys.ts';
import { useRows } from '../list/use-rows.ts';
import { Age } from '../ui/time/age.tsx';
import { formatForFile } from '../ui/time/dates.ts';
import type { Route } from './+types/customers-page.ts';
import { CustomerBadges } from './customer-badges.tsx';
import { CustomerDialog } from './customer-dialog.tsx';
import {
  type CustomerFilters,
  type Kind,
  kinds,
  type ListedCustomer,
  readCustomers,
  sorts,
} from './customer-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Customers');

const noFilters: CustomerFilters = { search: '', kind: '', sort: '' };

export default function CustomersPage({ params }: Route.ComponentProps) {
  const { tables } = useMember().staff;
  const navigate = useNavigate();
  const { search: query } = useLocation();
  const filters = useListFilters(noFilters);
  const { search, kind, sort } = filters.values;
  const read = readCustomers(tables, filters.values);
  const customers = useRows<ListedCustomer>(['customers', 'list', filters.values], read);
  useRowKeys(customers.rows);
  const close = useDialogUrlClose(
    useCallback(
      () =>
        void navigate(
          { pathname: '/admin/customers', search: query },
          { replace: true, preventScrollReset: true },
        ),
      [navigate, query],
    ),
  );
  return (
    <>
      <ListFrame
        heading="Customers"
        subtitle="By phone number"
        tools={
          <>
            <SearchBox
              placeholder="Name or phone..."
              searched={search}
              onSearch={(text) => filters.set('search', text)}
            />
            <FilterSelect<Kind>
              label="Show"
              value={kind}
              options={kinds}
              onChoose={(value) => filters.set('kind', value)}
            />
            {/* Wider lists have titles to press. */}
            <span className="contents xl:hidden">
              <SortSelect value={sort} choices={sorts} onChoose={(value) => filters.set('sort', value)} />
            </span>
            <ExportButton<ListedCustomer> name="customers" read={read} columns={exportColumns} />
          </>
        }
      >
        <RowList
          {...customers}
          label="Customers"
          columns={columns}
          sorting={{ value: sort, set: (value) => filters.set('sort', value) }}
          compact={(customer) => <CompactRow customer={customer} />}
          empty={
            filters.isNarrowed
              ? noneFound('customers', 'Try another name or number.', filters.clear)
              : {
                  title: 'No customers yet',
                  text: 'Whoever orders appears here, by the phone number of the order.',
                }
          }
        />
      </ListFrame>
      <CustomerDialog phone={params.phone ?? null} onClose={close} />
    </>
  );
}

function NameLink({ customer: { name, phone } }: { customer: ListedCustomer }) {
  const [parameters] = useSearchParams();
  return (
    <Link
      to={{ pathname: `/admin/customers/${phone}`, search: parameters.toString() }}
      state={fromThisPage}
      preventScrollReset
      data-row-link
      className="tap font-semibold wrap-anywhere underline"
    >
      {name}
    </Link>
  );
}

const ordersOf = ({ orders }: ListedCustomer): string =>
  orders === 1 ? '1 order' : `${formatCount(orders)} orders`;

const columns: Column<ListedCustomer>[] = [
  { title: 'Customer', sort: 'name', show: (customer) => <NameLink customer={customer} /> },
  {
    title: 'Phone',
    show: ({ phone }) => <span className="whitespace-nowrap tabular-nums">{formatPhone(phone)}</span>,
  },
  {
    title: 'Orders',
    isNumber: true,
    sort: 'orders',
    show: ({ orders }) => formatCount(orders),
  },
  { title: 'Spent', isNumber: true, sort: 'spent', show: ({ spent_cents }) => formatKes(spent_cents) },
  { title: 'Last order', show: ({ created_at }) => <Age at={created_at} /> },
  { title: 'Notes', show: (customer) => <CustomerBadges customer={customer} /> },
];

/** On phones. */
function CompactRow({ customer }: { customer: ListedCustomer }) {
  const { phone, spent_cents, created_at } = customer;
  return (
    <div className="grid gap-0.5 py-1 text-sm leading-5.5">
      <p className="flex flex-wrap items-center justify-between gap-x-3">
        <NameLink customer={customer} />
        <span className="whitespace-nowrap text-ink-soft tabular-nums">{formatPhone(phone)}</span>
      </p>
      <p className="flex flex-wrap items-center justify-between gap-x-3 tabular-nums">
        <span>
          {ordersOf(customer)} · {formatKes(spent_cents)}
        </span>
        <Age at={created_at} />
      </p>
      <CustomerBadges customer={customer} />
    </div>
  );
}

const exportColumns: CsvColumn<ListedCustomer>[] = [
  { title: 'Customer', value: ({ name }) => name },
  { title: 'Phone', value: ({ phone }) => phoneCell(phone) },
  { title: 'Orders', value: ({ orders }) => orders },
  { title: 'Spent (KES)', value: ({ spent_cents }) => spent_cents / 100 },
  { title: 'Credit (KES)', value: ({ credit_cents }) => credit_cents / 100 },
  { title: 'Last order (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Blocked', value: ({ is_blocked }) => (is_blocked ? 'Blocked' : null) },
];
