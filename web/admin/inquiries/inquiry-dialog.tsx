// The details of an inquiry, with its answers and the form to answer it. Open while the URL has `?view=<id>`. Opening does not mark it
// as read, because that cannot be undone and a colleague may still have to answer.
import { useId, useState } from 'react';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { Button } from '../../ui/button.tsx';
import {
  DialogBody,
  DialogFooter,
  DialogHeading,
  DialogOrDrawer,
  useKeepOpen,
} from '../../ui/dialog/dialog-or-drawer.tsx';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { Discard } from '../dialogs/discard.tsx';
import { useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { ContactLink, callTo, chatTo, mailTo } from '../ui/contact-link.tsx';
import { Fact } from '../ui/fact.tsx';
import { LinkedText } from '../ui/linked-text.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { Answers } from './answers.tsx';
import { ReadBadge, subjectOf } from './inquiry-columns.tsx';
import { type Inquiry, useInquiry } from './inquiry-queries.ts';
import { isOvertaken, ReplyForm } from './reply-form.tsx';
import { useAnswer } from './use-answer.ts';
import type { useMarkRead } from './use-mark-read.ts';
import { newDraft, type ReplyDraft, useReplyDraft } from './use-reply-draft.ts';

type Marking = ReturnType<typeof useMarkRead>;

export function InquiryDialog({ marking }: { marking: Marking }) {
  const { id, shownId, close } = useDialogParameter('view');
  return (
    <DialogOrDrawer hasOwnEntry={false} size="large" open={id !== null} onClose={close}>
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

/** A draft survives closing the dialog, but not leaving the panel. */
const neverAway = () => false;

function Whole({ inquiry, marking, onClose }: WholeProps) {
  const form = useId();
  const [draft, setDraft] = useReplyDraft(inquiry.id);
  const answer = useAnswer(() => setDraft(null));
  useKeepOpen(answer.isPending);
  useUnsaved(draft !== null && draft.body.trim() !== '', neverAway);

  return (
    <>
      <DialogHeading
        title={<span className="break-words">Inquiry from {inquiry.name}</span>}
        description={
          <>
            Received on <time dateTime={inquiry.created_at}>{formatDateTime(inquiry.created_at)}</time>
          </>
        }
      />
      <DialogBody>
        <div className="grid gap-5">
          <Facts inquiry={inquiry} />
          <Answers inquiry={inquiry} />
          {draft ? (
            <ReplyForm
              id={form}
              inquiry={inquiry}
              draft={draft}
              isSaving={answer.isPending}
              onChange={setDraft}
              onSubmit={() => answer.mutate({ inquiry, draft })}
            />
          ) : null}
        </div>
      </DialogBody>
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          {draft ? (
            <Sending
              form={form}
              draft={draft}
              isSaving={answer.isPending}
              isBlocked={isOvertaken(draft, inquiry)}
              onDiscard={() => setDraft(null)}
              onClose={onClose}
            />
          ) : (
            <>
              <Button tone="quiet" onClick={onClose}>
                Close
              </Button>
              {inquiry.is_read ? null : (
                <Button
                  tone="quiet"
                  isBusy={marking.isMarking(inquiry)}
                  onClick={() => marking.mark(inquiry)}
                >
                  Mark as Read
                </Button>
              )}
              <Button onClick={() => setDraft(newDraft(inquiry))}>Reply</Button>
            </>
          )}
        </div>
      </DialogFooter>
    </>
  );
}

const sendLabel = ({ ways }: ReplyDraft): string =>
  ways.length > 1
    ? 'Send email and SMS'
    : ways.includes('elsewhere')
      ? 'Mark as answered'
      : ways.includes('text')
        ? 'Send SMS'
        : 'Send email';

interface SendingProps {
  form: string;
  draft: ReplyDraft;
  isSaving: boolean;
  isBlocked: boolean;
  onDiscard(): void;
  onClose(): void;
}

/** What is typed stays when the dialog is closed, until it is sent or discarded. */
function Sending({ form, draft, isSaving, isBlocked, onDiscard, onClose }: SendingProps) {
  const [isAsking, setAsking] = useState(false);
  const isEmpty = draft.body.trim() === '';
  if (isAsking) return <Discard onStay={() => setAsking(false)} onLeave={onDiscard} />;
  return (
    <>
      {isEmpty ? null : (
        <Button tone="quiet" onClick={() => setAsking(true)} className="mr-auto">
          Discard
        </Button>
      )}
      <Button tone="quiet" onClick={isEmpty ? onDiscard : onClose}>
        {isEmpty ? 'Cancel' : 'Finish later'}
      </Button>
      <Button type="submit" form={form} isBusy={isSaving} disabled={isBlocked}>
        {isSaving ? 'Sending...' : sendLabel(draft)}
      </Button>
    </>
  );
}

function Facts({ inquiry }: { inquiry: Inquiry }) {
  const { name, email, phone, message, is_read } = inquiry;
  const mobile = phone ? normalisePhone(phone) : null;
  const subject = subjectOf(inquiry);
  const mailto = mailTo(email, inquiry.subject?.trim() ? `Re: ${subject}` : 'Your message to us');
  return (
    <>
      <div>
        <ReadBadge isRead={is_read} />
      </div>
      <dl className="grid gap-4 md:grid-cols-2">
        <Fact term="Email">
          <a href={mailto} className="tap max-w-full break-all underline">
            {email}
          </a>
        </Fact>
        {phone ? (
          <Fact term="Phone">
            <a href={callTo(phone)} className="tap underline">
              {mobile ? formatPhone(mobile) : phone}
            </a>
          </Fact>
        ) : null}
      </dl>
      <dl className="grid gap-4">
        <Fact term="Subject">{subject}</Fact>
        <Fact term="Message">
          <span className="block rounded-md bg-paper-deep px-4 py-3 whitespace-pre-wrap">
            <LinkedText text={message} />
          </span>
        </Fact>
      </dl>
      <div className="flex flex-wrap gap-2">
        {phone ? (
          <ContactLink href={callTo(phone)} icon="phone" label="Call" who={name} className="px-4!" />
        ) : null}
        {mobile ? (
          <ContactLink
            href={chatTo(mobile)}
            icon="chat"
            label="Chat"
            who={`with ${name}`}
            className="px-4!"
          />
        ) : null}
        <ContactLink
          href={mailto}
          icon="mail"
          label="Reply by mail"
          who={`to ${name}, in your own program`}
          className="px-4!"
        />
      </div>
    </>
  );
}
