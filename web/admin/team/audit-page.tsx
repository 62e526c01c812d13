// Who changed what in the shop, newest first: see the areas in audit-texts.ts.

import type { Staff } from '../../lib/staff.ts';
import { keysOf } from '../data/keys-of.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { type DayFilter, noDays, readDays } from '../list/days.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { DayFilterSelect, MoreFilters } from '../list/list-filters.tsx';
import { FilterSelect } from '../list/list-toolbar.tsx';
import { type Column, ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { type ReadPage, useRows } from '../list/use-rows.ts';
import { UpLink } from '../ui/page-heading.tsx';
import { NameInHistory, useNameOf } from '../ui/staff-name.tsx';
import { formatDateTime, formatForFile } from '../ui/time/dates.ts';
import type { Route } from './+types/audit-page.ts';
import { type AuditRow, auditAreas, describeKind, describeSubject, describeValues } from './audit-texts.ts';
import { nameOf, useTeam } from './team-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Audit');

interface AuditFilters extends DayFilter {
  area: keyof typeof auditAreas | '';
  person: string;
}

function readAudit(tables: Staff['tables'], { area, person, ...days }: AuditFilters) {
  return (({ after, limit, signal }) =>
    tables
      .rpc('search_audit', {
        area: area || null,
        person: person || null,
        ...readDays(days, Date.now()),
        before_created_at: after?.created_at ?? null,
        before_id: after?.id ?? null,
        page_size: limit,
      })
      .abortSignal(signal) as unknown as ReturnType<ReadPage<AuditRow>>) satisfies ReadPage<AuditRow>;
}

const byTheShop = 'The shop itself';

export default function AuditPage() {
  const { tables } = useMember().staff;
  const nameFor = useNameOf();
  const team = useTeam().data ?? [];
  const filters = useListFilters<AuditFilters>({ area: '', person: '', ...noDays });
  const rows = useRows<AuditRow>(['audit', filters.values], readAudit(tables, filters.values));
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <UpLink to="/admin/settings/team" name="Team" />
      <ListFrame
        heading="Audit"
        subtitle="Who changed what. Changes of stock: in the history of each product"
        tools={
          <>
            <FilterSelect
              label="Area"
              value={filters.values.area}
              options={[
                { value: '', label: 'All areas' },
                ...keysOf(auditAreas).map((value) => ({ value, label: auditAreas[value] })),
              ]}
              onChoose={(value) => filters.set('area', value)}
            />
            <MoreFilters setCount={(filters.values.person ? 1 : 0) + (filters.values.day ? 1 : 0)}>
              <FilterSelect
                label="Person"
                value={filters.values.person}
                options={[
                  { value: '', label: 'Everyone' },
                  ...team.map((member) => ({ value: member.email, label: nameOf(member) })),
                ]}
                onChoose={(value) => filters.set('person', value)}
              />
              <DayFilterSelect filters={filters} />
              <ExportButton
                name="audit"
                read={readAudit(tables, filters.values)}
                columns={exportColumns(nameFor)}
              />
            </MoreFilters>
          </>
        }
      >
        <RowList
          {...rows}
          label="Audit"
          columns={columns}
          compact={(row) => <CompactRow row={row} />}
          empty={
            filters.isNarrowed
              ? noneFound('changes', 'Try another person, area or day.', filters.clear)
              : {
                  title: 'No changes yet',
                  text: 'Changes of team, settings, products and refunds appear here.',
                }
          }
        />
      </ListFrame>
    </div>
  );
}

const Values = ({ row }: { row: AuditRow }) => (
  <ul className="flex flex-wrap gap-x-3 gap-y-0.5 text-sm wrap-anywhere">
    {describeValues(row).map((text) => (
      <li key={text}>{text}</li>
    ))}
  </ul>
);

const columns: readonly Column<AuditRow>[] = [
  {
    title: 'When',
    show: ({ created_at }) => (
      <time dateTime={created_at} className="whitespace-nowrap">
        {formatDateTime(created_at)}
      </time>
    ),
  },
  {
    title: 'Who',
    show: ({ actor_email }) => <NameInHistory email={actor_email} otherwise={byTheShop} />,
  },
  { title: 'What', show: (row) => <span className="font-semibold">{describeKind(row)}</span> },
  { title: 'Of', show: (row) => <Subject row={row} /> },
  { title: 'From and to', show: (row) => <Values row={row} /> },
];

function Subject({ row }: { row: AuditRow }) {
  if (!row.subject) return null;
  return row.area === 'team' ? (
    <NameInHistory email={row.subject} otherwise="" />
  ) : (
    <span className="wrap-anywhere">{describeSubject(row)}</span>
  );
}

function CompactRow({ row }: { row: AuditRow }) {
  return (
    <div className="grid min-w-0 gap-0.5 text-sm leading-5.5">
      <p className="flex flex-wrap gap-x-2">
        <span className="font-semibold">{describeKind(row)}</span>
        <span className="min-w-0 wrap-anywhere">
          <Subject row={row} />
        </span>
      </p>
      <Values row={row} />
      <p className="text-ink-soft">
        <NameInHistory email={row.actor_email} otherwise={byTheShop} /> ·{' '}
        <time dateTime={row.created_at}>{formatDateTime(row.created_at)}</time>
      </p>
    </div>
  );
}

const exportColumns = (nameFor: (email: string) => string): readonly CsvColumn<AuditRow>[] => [
  { title: 'When', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Who', value: ({ actor_email }) => (actor_email ? nameFor(actor_email) : byTheShop) },
  { title: 'Email', value: ({ actor_email }) => actor_email },
  { title: 'Area', value: ({ area }) => auditAreas[area as keyof typeof auditAreas] ?? area },
  { title: 'What', value: describeKind },
  { title: 'Of', value: describeSubject },
  { title: 'Before', value: ({ before }) => (before === null ? null : JSON.stringify(before)) },
  { title: 'After', value: ({ after }) => (after === null ? null : JSON.stringify(after)) },
];
