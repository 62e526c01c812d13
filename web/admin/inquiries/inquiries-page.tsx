// The inquiries: search, export, details, and marking one or all as read.
import { formatCount } from '../../../domain/count.ts';
import { Button } from '../../ui/button.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { MoreFilters, QuickFilters } from '../list/list-filters.tsx';
import { SearchBox, SortSelect } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { useRowKeys } from '../list/use-row-keys.ts';
import type { Route } from './+types/inquiries-page.ts';
import { exportColumns, InquiryRow, inquiryColumns } from './inquiry-columns.tsx';
import { InquiryDialog } from './inquiry-dialog.tsx';
import { type InquiryFilters, readInquiries, useInquiries, useUnread } from './inquiry-queries.ts';
import { useMarkAllRead, useMarkRead } from './use-mark-read.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Inquiries');

export default function InquiriesPage() {
  const { tables } = useMember().staff;
  const filters = useListFilters<InquiryFilters>({ search: '', status: '', sort: '' });
  const { search, status, sort } = filters.values;
  const setSort = (value: string) => filters.set('sort', value);
  const inquiries = useInquiries(filters.values);
  const unread = useUnread();
  const marking = useMarkRead();
  useRowKeys(inquiries.rows);

  return (
    <>
      <ListFrame
        heading="Inquiries"
        subtitle="Manage customer inquiries"
        actions={<MarkAllButton />}
        tools={
          <>
            <SearchBox
              placeholder="Search inquiries..."
              searched={search}
              onSearch={(text) => filters.set('search', text)}
            />
            <MoreFilters setCount={0}>
              <SortSelect
                value={sort}
                choices={[
                  ['date', 'Oldest first'],
                  ['-date', 'Newest first'],
                  ['name', 'By name'],
                  ['subject', 'By subject'],
                  ['status', 'Unread first'],
                ]}
                onChoose={setSort}
              />
              <ExportButton
                name="inquiries"
                read={readInquiries(tables, { ...filters.values, sort: '' })}
                columns={exportColumns}
              />
            </MoreFilters>
          </>
        }
        chips={
          unread?.count || status ? (
            <QuickFilters
              filters={[{ label: 'Unread', count: unread?.count, ...filters.toggle('status', 'unread') }]}
            />
          ) : null
        }
      >
        <RowList
          {...inquiries}
          label="Inquiries"
          columns={inquiryColumns(marking)}
          sorting={{ value: sort || (status === 'unread' ? 'date' : ''), set: setSort }}
          compact={(inquiry) => <InquiryRow inquiry={inquiry} marking={marking} />}
          rowStyle={({ is_read }) =>
            is_read ? '' : 'bg-tone-blue-soft/35 shadow-[inset_4px_0_0] shadow-tone-blue'
          }
          empty={
            status && !search
              ? noneFound('inquiries', 'All inquiries are read.', filters.clear)
              : filters.isNarrowed
                ? noneFound('inquiries', 'Try another search.', filters.clear)
                : { title: 'No inquiries yet', text: 'Messages from the contact page appear here.' }
          }
        />
      </ListFrame>
      <InquiryDialog marking={marking} />
    </>
  );
}

function MarkAllButton() {
  const unread = useUnread();
  const save = useMarkAllRead();
  if (!unread || unread.count === 0) return null;
  return (
    <Button tone="dusk" isBusy={save.isPending} onClick={() => save.mutate(unread)}>
      Mark All Read ({formatCount(unread.count)})
    </Button>
  );
}
