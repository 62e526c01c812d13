// An inquiry in the list (specification §2, Admin Inquiries), and in the exported file.
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { mailTo } from '../contact-link.tsx';
import { formatDate } from '../dates.ts';
import type { CsvColumn } from '../list/csv.ts';
import type { Column } from '../list/row-list.tsx';
import { useDialogOpener } from '../use-dialog-parameter.ts';
import type { Inquiry } from './inquiry-queries.ts';
import type { useMarkRead } from './use-mark-read.ts';

export const subjectOf = ({ subject }: Inquiry): string => subject?.trim() || 'No subject';

export const ReadBadge = ({ isRead }: { isRead: boolean }) => (
  <Badge tone={isRead ? 'grey' : 'blue'}>{isRead ? 'Read' : 'Unread'}</Badge>
);

export function inquiryColumns({ mark, isMarking }: ReturnType<typeof useMarkRead>): Column<Inquiry>[] {
  return [
    {
      title: 'Name',
      card: 'heading',
      show: ({ name, is_read }) => (
        <span className={`flex max-w-60 items-center gap-2.5 ${is_read ? '' : 'font-bold'}`}>
          {is_read ? null : (
            <span title="Unread" className="size-2.5 shrink-0 rounded-pill bg-tone-blue" aria-hidden="true" />
          )}
          <span className="line-clamp-2 min-w-0 break-words">{name}</span>
        </span>
      ),
    },
    {
      title: 'Email',
      card: 'alone',
      show: ({ email }) => (
        <a
          href={mailTo(email)}
          className="tap max-w-full wrap-anywhere text-ink-soft underline table:max-w-64 table:min-w-44"
        >
          {email}
        </a>
      ),
    },
    {
      title: 'Subject',
      card: 'alone',
      show: (inquiry) => (
        <span
          className={`line-clamp-2 max-w-80 break-words ${inquiry.subject?.trim() ? '' : 'text-ink-soft'} ${inquiry.is_read ? '' : 'font-semibold'}`}
        >
          {subjectOf(inquiry)}
        </span>
      ),
    },
    {
      title: 'Date',
      show: ({ created_at }) => (
        <time dateTime={created_at} className="whitespace-nowrap">
          {formatDate(created_at)}
        </time>
      ),
    },
    { title: 'Status', card: 'corner', show: ({ is_read }) => <ReadBadge isRead={is_read} /> },
    {
      title: 'Actions',
      card: 'actions',
      show: (inquiry) => (
        <span className="flex items-center gap-2">
          <ViewButton inquiry={inquiry} />
          {inquiry.is_read ? null : (
            <Button
              tone="quiet"
              isBusy={isMarking(inquiry)}
              onClick={() => mark(inquiry)}
              className="whitespace-nowrap"
            >
              Mark as Read<span className="sr-only">: {inquiry.name}</span>
            </Button>
          )}
        </span>
      ),
    },
  ];
}

function ViewButton({ inquiry: { id, name } }: { inquiry: Inquiry }) {
  const open = useDialogOpener('view');
  return (
    <Button tone="quiet" onClick={() => open(id)} aria-haspopup="dialog">
      View<span className="sr-only"> inquiry from {name}</span>
    </Button>
  );
}

export const exportColumns: CsvColumn<Inquiry>[] = [
  { title: 'Name', value: ({ name }) => name },
  { title: 'Email', value: ({ email }) => email },
  { title: 'Phone', value: ({ phone }) => phone },
  { title: 'Subject', value: ({ subject }) => subject },
  { title: 'Message', value: ({ message }) => message },
  { title: 'Date', value: ({ created_at }) => created_at },
  { title: 'Status', value: ({ is_read }) => (is_read ? 'Read' : 'Unread') },
];
