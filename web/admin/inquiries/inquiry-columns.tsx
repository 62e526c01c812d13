// An inquiry in the list (docs/product.md#inquiries-screen), and in the export.
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { phoneCell } from '../list/phone-cell.ts';
import type { Column } from '../list/row-list.tsx';
import { mailTo } from '../ui/contact-link.tsx';
import { knownNameOf } from '../ui/known-names.ts';
import { LinkedText } from '../ui/linked-text.tsx';
import { StaffName } from '../ui/staff-name.tsx';
import { Age } from '../ui/time/age.tsx';
import { formatForFile } from '../ui/time/dates.ts';
import type { Inquiry } from './inquiry-queries.ts';
import type { useMarkRead } from './use-mark-read.ts';

export const subjectOf = ({ subject }: Pick<Inquiry, 'subject'>): string => subject?.trim() || 'No subject';

export const ReadBadge = ({ isRead, isSmall = false }: { isRead: boolean; isSmall?: boolean }) => (
  <Badge tone={isRead ? 'grey' : 'blue'} isSmall={isSmall}>
    {isRead ? 'Read' : 'Unread'}
  </Badge>
);

/** Who answered last. */
function AnsweredBy({ inquiry: { answered_by } }: { inquiry: Inquiry }) {
  if (answered_by === null) return null;
  return (
    <span className="text-sm whitespace-nowrap text-ink-soft">
      Answered by <StaffName email={answered_by} />
    </span>
  );
}

/** Of a message, more than a list has room for. */
const firstWords = 300;

/** The first words of a message, in one line. */
const Words = ({ message }: Pick<Inquiry, 'message'>) => (
  <LinkedText text={message.slice(0, firstWords).replace(/\s+/g, ' ').trim()} />
);

export function inquiryColumns({ mark, isMarking }: ReturnType<typeof useMarkRead>): Column<Inquiry>[] {
  return [
    {
      title: 'Name',
      sort: 'name',
      show: ({ name, is_read }) => (
        <span className={`flex max-w-60 items-center gap-2.5 ${is_read ? '' : 'font-bold'}`}>
          {is_read ? null : (
            <span
              title="Unread"
              className="size-2.5 shrink-0 rounded-pill bg-tone-blue forced-color-adjust-none"
              aria-hidden="true"
            />
          )}
          <span className="line-clamp-2 min-w-0 break-words">{name}</span>
        </span>
      ),
    },
    {
      title: 'Email',
      sort: 'email',
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
      sort: 'subject',
      show: (inquiry) => (
        <span className="grid w-full min-w-56">
          <span
            className={`line-clamp-1 wrap-anywhere ${inquiry.subject?.trim() ? '' : 'text-ink-soft'} ${inquiry.is_read ? '' : 'font-semibold'}`}
          >
            {subjectOf(inquiry)}
          </span>
          <span className="line-clamp-1 wrap-anywhere text-ink-soft">
            <Words message={inquiry.message} />
          </span>
        </span>
      ),
    },
    {
      title: 'Date',
      sort: 'date',
      show: ({ created_at }) => <Age at={created_at} />,
    },
    {
      title: 'Status',
      sort: 'status',
      show: (inquiry) => (
        <span className="grid justify-items-start gap-0.5">
          <ReadBadge isRead={inquiry.is_read} />
          <AnsweredBy inquiry={inquiry} />
        </span>
      ),
    },
    {
      title: 'Actions',
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

/** On phones: the question next to the controls. */
export function InquiryRow({
  inquiry,
  marking,
}: {
  inquiry: Inquiry;
  marking: ReturnType<typeof useMarkRead>;
}) {
  const { name, email, created_at, is_read } = inquiry;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 sm:gap-x-6">
      <div className="min-w-0 py-1 text-sm leading-5.5">
        <p className="flex items-center gap-2">
          <span className={`truncate ${is_read ? '' : 'font-bold'}`}>{name}</span>
          <Age at={created_at} />
        </p>
        <p
          className={`truncate ${inquiry.subject?.trim() ? '' : 'text-ink-soft'} ${is_read ? '' : 'font-semibold'}`}
        >
          {subjectOf(inquiry)}
        </p>
        <p className="line-clamp-2 wrap-anywhere text-ink-soft md:line-clamp-1">
          <Words message={inquiry.message} />
        </p>
        <p className="flex items-center gap-2">
          <ReadBadge isRead={is_read} isSmall />
          <AnsweredBy inquiry={inquiry} />
          <a href={mailTo(email)} className="truncate py-0.5 text-ink-soft underline">
            {email}
          </a>
        </p>
      </div>
      <div className="grid sm:flex sm:flex-row-reverse sm:gap-2">
        <ViewButton inquiry={inquiry} />
        {is_read ? null : (
          <Button
            tone="quiet"
            isBusy={marking.isMarking(inquiry)}
            onClick={() => marking.mark(inquiry)}
            className="bg-transparent! px-2! whitespace-nowrap"
          >
            Mark as Read<span className="sr-only">: {name}</span>
          </Button>
        )}
      </div>
    </div>
  );
}

function ViewButton({ inquiry: { id, name } }: { inquiry: Inquiry }) {
  const open = useDialogOpener('view');
  return (
    <Button tone="quiet" onClick={() => open(id)} aria-haspopup="dialog" data-row-link>
      View<span className="sr-only"> inquiry from {name}</span>
    </Button>
  );
}

export const exportColumns: CsvColumn<Inquiry>[] = [
  { title: 'Name', value: ({ name }) => name },
  { title: 'Email', value: ({ email }) => email },
  { title: 'Phone', value: ({ phone }) => phoneCell(phone) },
  { title: 'Subject', value: ({ subject }) => subject },
  { title: 'Message', value: ({ message }) => message },
  { title: 'Received (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Status', value: ({ is_read }) => (is_read ? 'Read' : 'Unread') },
  { title: 'Answered by', value: ({ answered_by }) => answered_by && knownNameOf(answered_by) },
  { title: 'Answered (Nairobi time)', value: ({ answered_at }) => formatForFile(answered_at) },
];
