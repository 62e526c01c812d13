// The details of an inquiry, with links to answer it. Open while the URL has `?view=<id>`. Opening does not mark it
// as read, because that cannot be undone and a colleague may still have to answer.
import { msisdn, normalisePhone } from '../../../domain/phone.ts';
import { Button } from '../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { ContactLink, callTo, mailTo } from '../ui/contact-link.tsx';
import { formatDateTime } from '../ui/dates.ts';
import { Fact } from '../ui/fact.tsx';
import { ReadBadge, subjectOf } from './inquiry-columns.tsx';
import { type Inquiry, useInquiry } from './inquiry-queries.ts';
import type { useMarkRead } from './use-mark-read.ts';

type Marking = ReturnType<typeof useMarkRead>;

export function InquiryDialog({ marking }: { marking: Marking }) {
  const { id, shownId, close } = useDialogParameter('view');
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close}>
      {shownId ? <Opened key={shownId} id={shownId} marking={marking} onClose={close} /> : null}
    </DialogOrDrawer>
  );
}

function Opened({ id, marking, onClose }: { id: string; marking: Marking; onClose(): void }) {
  const query = useInquiry(id);
  if (query.data) return <Whole inquiry={query.data} marking={marking} onClose={onClose} />;
  return (
    <DialogLoadState
      title="Inquiry"
      noun="inquiry"
      row={query.data}
      query={query}
      advice="Please check the connection and try again."
      onClose={onClose}
    />
  );
}

interface WholeProps {
  inquiry: Inquiry;
  marking: Marking;
  onClose(): void;
}

function Whole({ inquiry, marking: { mark, isMarking }, onClose }: WholeProps) {
  const { name, email, phone, subject, message, created_at, is_read } = inquiry;
  const mobile = phone ? normalisePhone(phone) : null;
  const mailto = mailTo(email, subject?.trim() ? `Re: ${subject.trim()}` : 'Your message to us');
  return (
    <>
      <DialogHeading
        title={<span className="break-words">Inquiry from {name}</span>}
        description={
          <>
            Received on <time dateTime={created_at}>{formatDateTime(created_at)}</time>
          </>
        }
      />
      <DialogBody>
        <div className="grid gap-5">
          <div>
            <ReadBadge isRead={is_read} />
          </div>
          <dl className="grid gap-4">
            <Fact term="Email">
              <a href={mailto} className="tap max-w-full break-all underline">
                {email}
              </a>
            </Fact>
            {phone ? (
              <Fact term="Phone">
                <a href={callTo(phone)} className="tap underline">
                  {phone}
                </a>
              </Fact>
            ) : null}
            <Fact term="Subject">{subjectOf(inquiry)}</Fact>
            <Fact term="Message">
              <span className="block rounded-md bg-paper-deep px-4 py-3 whitespace-pre-wrap">{message}</span>
            </Fact>
          </dl>
          <div className="flex flex-wrap gap-2">
            <ContactLink
              href={mailto}
              icon="mail"
              label="Reply by mail"
              who={`to ${name}`}
              className="px-4!"
            />
            {phone ? <ContactLink href={callTo(phone)} icon="phone" label="Call" who={name} /> : null}
            {mobile ? (
              <ContactLink
                href={`https://wa.me/${msisdn(mobile)}`}
                icon="chat"
                label="Chat"
                who={`with ${name}`}
                className="px-4!"
              />
            ) : null}
          </div>
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          <Button tone="quiet" onClick={onClose}>
            Close
          </Button>
          {is_read ? null : (
            <Button isBusy={isMarking(inquiry)} onClick={() => mark(inquiry)}>
              Mark as Read
            </Button>
          )}
        </div>
      </DialogFooter>
    </>
  );
}
