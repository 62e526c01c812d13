// Messages to customers: search, filters, export, details, and resending.
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { keysOf } from '../data/keys-of.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { describeStaffPage } from '../layout/staff-page.ts';
import { ExportButton } from '../list/export/export-button.tsx';
import { MoreFilters } from '../list/list-filters.tsx';
import { FilterSelect, SearchBox, SortSelect } from '../list/list-toolbar.tsx';
import { ListFrame, noneFound, RowList } from '../list/row-list.tsx';
import { useListFilters } from '../list/use-list-filters.ts';
import { useRowKeys } from '../list/use-row-keys.ts';
import type { Route } from './+types/messages-page.ts';
import { canSend, exportColumns, MessageRow, messageColumns } from './message-columns.tsx';
import { MessageDialog } from './message-dialog.tsx';
import {
  type MessageFilters,
  readMessages,
  useMessageBudgets,
  useMessages,
  useSendAgain,
  useSendWithheld,
} from './message-queries.ts';
import { channelLabels, messageStatuses } from './message-texts.ts';
import { readerColumns, readNewsletterReaders } from './newsletter-readers.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Messages');

export default function MessagesPage() {
  const { tables } = useMember().staff;
  const may = useMay();
  const filters = useListFilters<MessageFilters>({ search: '', status: '', channel: '', sort: '' });
  const { search, status, channel, sort } = filters.values;
  const setSort = (value: string) => filters.set('sort', value);
  const messages = useMessages(filters.values);
  const again = useSendAgain();
  useRowKeys(messages.rows);

  return (
    <>
      <ListFrame
        heading="Messages"
        subtitle="Mails and texts to customers"
        actions={
          <>
            {status === 'over_budget' ? <SendWithheldButton channel={channel} /> : null}
            <Link to="/admin/messages/templates" className={buttonStyle('dusk')}>
              Edit templates
            </Link>
          </>
        }
        tools={
          <>
            <SearchBox
              placeholder="Search messages..."
              searched={search}
              onSearch={(text) => filters.set('search', text)}
            />
            <FilterSelect
              label="Status"
              value={status}
              options={[
                { value: '', label: 'All Status' },
                ...keysOf(messageStatuses).map((value) => ({ value, label: messageStatuses[value][0] })),
              ]}
              onChoose={(value) => filters.set('status', value)}
            />
            <MoreFilters setCount={channel ? 1 : 0}>
              <FilterSelect
                label="Sent by"
                value={channel}
                options={[
                  { value: '', label: 'Mail and text' },
                  ...keysOf(channelLabels).map((value) => ({ value, label: channelLabels[value] })),
                ]}
                onChoose={(value) => filters.set('channel', value)}
              />
              <SortSelect
                value={sort}
                choices={[
                  ['date', 'Oldest first'],
                  ['-date', 'Newest first'],
                  ['customer', 'By customer'],
                  ['status', 'Failed first'],
                ]}
                onChoose={setSort}
              />
              <ExportButton
                name="messages"
                read={readMessages(tables, { ...filters.values, sort: '' })}
                columns={exportColumns}
              />
              {may('personal_data') ? (
                <ExportButton
                  name="newsletter readers"
                  label="Newsletter list"
                  read={readNewsletterReaders(tables)}
                  columns={readerColumns}
                />
              ) : null}
            </MoreFilters>
          </>
        }
      >
        <RowList
          {...messages}
          label="Messages"
          columns={messageColumns(again)}
          sorting={{ value: sort, set: setSort }}
          compact={(message) => <MessageRow message={message} again={again} />}
          rowStyle={(message) =>
            canSend(message) ? 'bg-danger-soft/40 shadow-[inset_4px_0_0] shadow-danger' : ''
          }
          empty={
            filters.isNarrowed
              ? noneFound('messages', 'Try another search or another status.', filters.clear)
              : { title: 'No messages yet', text: 'Customers get a message at each step of their order.' }
          }
        />
      </ListFrame>
      <MessageDialog again={again} />
    </>
  );
}

/** Sends all withheld messages, of one channel if it is chosen. */
function SendWithheldButton({ channel }: Pick<MessageFilters, 'channel'>) {
  const budgets = useMessageBudgets().data ?? [];
  const sendWithheld = useSendWithheld();
  const count = budgets
    .filter((budget) => channel === '' || budget.channel === channel)
    .reduce((sum, { over_budget }) => sum + over_budget, 0);
  if (count === 0) return null;
  return (
    <Button isBusy={sendWithheld.isPending} onClick={() => sendWithheld.mutate(channel)}>
      Send all {formatCount(count)} now
    </Button>
  );
}
