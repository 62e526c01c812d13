// The templates from which staff begin a reply to an inquiry: listed, added, edited and deleted. The dialog is open while the URL has
// `?reply=<id>`, or `?reply=new`.
import { useId, useRef, useState } from 'react';
import {
  checkReplyTemplate,
  exampleInquiry,
  replyPlaceholders,
  replyTemplateLimits,
  writeReply,
} from '../../../domain/reply-template.ts';
import { plainText, textLength } from '../../../domain/text-message.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { changedRow } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { Discard } from '../dialogs/discard.tsx';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useDialogOpener, useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../dialogs/use-unsaved.ts';
import { type ReplyTemplate, useReplyTemplates } from '../inquiries/inquiry-queries.ts';
import { useMember } from '../layout/use-member.tsx';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { Placeholders } from '../ui/placeholders.tsx';
import { useShop } from './use-shop.ts';

const newTemplate = 'new';

export function ReplyTemplates() {
  const query = useReplyTemplates();
  const open = useDialogOpener('reply');
  return (
    <div id="replies" className="scroll-mt-20">
      <Card
        title="Replies to inquiries"
        description="Staff begin a reply with one of these, by email or SMS, and change it before it is sent."
      >
        {query.data ? (
          <div className="grid gap-4">
            <div className="grid grid-cols-[minmax(0,1fr)] gap-4 xl:grid-cols-2">
              {query.data.map((template) => (
                <Shown key={template.id} template={template} />
              ))}
            </div>
            <Button
              tone="quiet"
              onClick={() => open(newTemplate)}
              aria-haspopup="dialog"
              className="justify-self-start"
            >
              Add a reply
            </Button>
          </div>
        ) : (
          <ScreenLoadState noun="replies" queries={[query]} />
        )}
      </Card>
      <ReplyTemplateDialog templates={query.data} />
    </div>
  );
}

function Shown({ template }: { template: ReplyTemplate }) {
  const open = useDialogOpener('reply');
  const { shop } = useShop();
  return (
    <section
      aria-label={`Reply: ${template.title}`}
      className="grid grid-cols-[minmax(0,1fr)] content-start gap-3 rounded-lg border border-line p-4"
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h3 className="text-base wrap-anywhere">{template.title}</h3>
        <Button tone="quiet" onClick={() => open(template.id)} aria-haspopup="dialog">
          Edit<span className="sr-only">: {template.title}</span>
        </Button>
      </div>
      <p className="text-sm wrap-anywhere whitespace-pre-wrap">
        {writeReply(template.body, { shop, ...exampleInquiry })}
      </p>
    </section>
  );
}

function ReplyTemplateDialog({ templates }: { templates: ReplyTemplate[] | undefined }) {
  const { id, shownId, close } = useDialogParameter('reply');
  const found = templates && (templates.find((each) => each.id === shownId) ?? null);
  const isNew = shownId === newTemplate;
  return (
    <DialogOrDrawer hasOwnEntry={false} size="wide" open={id !== null} onClose={close}>
      {isNew || found ? (
        <Editor key={shownId} current={isNew ? null : (found ?? null)} onClose={close} />
      ) : (
        <DialogLoadState title="Reply" noun="reply" row={found} onClose={close} />
      )}
    </DialogOrDrawer>
  );
}

interface Form {
  title: string;
  body: string;
}
const formOf = (template: ReplyTemplate | null): Form => ({
  title: template?.title ?? '',
  body: template?.body ?? '',
});
const isSame = (one: Form, other: Form) => one.title === other.title && one.body === other.body;

/** @param current null for a new one */
function Editor({ current, onClose }: { current: ReplyTemplate | null; onClose(): void }) {
  const { tables } = useMember().staff;
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  // The values at opening: a change by a colleague is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [typed, setTyped] = useState(() => formOf(current));
  const [isChecked, setChecked] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const unsaved = useUnsaved(!isSame(typed, formOf(seen)));
  const end = () => {
    unsaved.note(false);
    onClose();
  };
  const save = useSave({
    write: async ({ title, body }: Form) => {
      const values = { title: title.trim(), body };
      return seen
        ? changedRow(
            await tables
              .from('reply_templates')
              .update(values)
              .eq('id', seen.id)
              .eq('updated_at', seen.updated_at)
              .select('*'),
          )
        : changedRow(await tables.from('reply_templates').insert(values).select('*'));
    },
    success: 'Reply saved successfully',
    failure: 'Failed to save the reply',
    refresh: ['templates'],
    onSuccess: end,
  });
  const remove = useSave({
    write: async (template: ReplyTemplate) =>
      changedRow(
        await tables
          .from('reply_templates')
          .delete()
          .eq('id', template.id)
          .eq('updated_at', template.updated_at)
          .select('*'),
      ),
    success: 'Reply deleted',
    failure: 'Failed to delete the reply',
    refresh: ['templates'],
    onSuccess: end,
  });
  const isBusy = save.isPending || remove.isPending;
  useKeepOpen(isBusy);
  const problems = checkReplyTemplate(typed);
  const isChanged =
    !isBusy &&
    !save.isSuccess &&
    current !== null &&
    seen !== null &&
    current.updated_at !== seen.updated_at &&
    !isSame(formOf(current), formOf(seen));
  const change = (changes: Partial<Form>) => setTyped((now) => ({ ...now, ...changes }));

  function submit() {
    setChecked(true);
    const [first] = Object.keys(problems);
    if (!first) return save.mutate(typed);
    // After the error is rendered, so that screen readers read it with the field.
    requestAnimationFrame(() => (form.current?.elements.namedItem(first) as HTMLElement | null)?.focus());
  }

  return (
    <>
      <DialogHeading
        title={current ? `Reply: ${current.title}` : 'New reply'}
        description="Offered with every inquiry"
      />
      <DialogBody>
        <div className="grid items-start gap-6 md:grid-cols-2">
          <form
            ref={form}
            id={id}
            noValidate
            onSubmit={(event) => {
              event.preventDefault();
              if (!isBusy) submit();
            }}
            className="grid min-w-0 gap-5"
          >
            {isChanged && current ? (
              <Notice tone="danger" title="Someone else changed this">
                <span className="grid gap-3">
                  <span className="block break-words whitespace-pre-wrap">
                    {current.title}: {current.body}
                  </span>
                  <span className="flex flex-wrap gap-3">
                    <Button
                      tone="quiet"
                      onClick={() => {
                        setSeen(current);
                        setTyped(formOf(current));
                      }}
                    >
                      Keep their changes
                    </Button>
                    <Button tone="quiet" onClick={() => setSeen(current)}>
                      Keep mine
                    </Button>
                  </span>
                </span>
              </Notice>
            ) : null}
            <TextField
              label="Title"
              name="title"
              required
              autoComplete="off"
              maxLength={replyTemplateLimits.title}
              value={typed.title}
              problem={isChecked ? problems.title : undefined}
              hint="Only staff read it"
              onChange={({ target }) => change({ title: target.value })}
            />
            <TextArea
              label="Reply"
              name="body"
              required
              rows={8}
              value={typed.body}
              problem={isChecked ? problems.body : undefined}
              hint="Text in [ ] is left out when one of its placeholders is empty."
              onChange={({ target }) => change({ body: target.value })}
            />
            <Placeholders words={replyPlaceholders} form={form} onInsert={(body) => change({ body })} />
          </form>
          <Preview body={typed.body} isSound={problems.body === undefined} />
        </div>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        question={
          isDeleting && current ? (
            <Discard
              question="Delete this reply for all staff?"
              stay="Keep it"
              leave="Delete reply"
              isBusy={remove.isPending}
              onStay={() => setDeleting(false)}
              onLeave={() => remove.mutate(current)}
            />
          ) : null
        }
        label={save.isPending ? 'Saving...' : 'Save'}
        isBusy={isBusy}
        disabled={isChanged}
        form={id}
        onCancel={onClose}
      >
        {current ? (
          <Button tone="quiet" onClick={() => setDeleting(true)} className="mr-auto">
            Delete
          </Button>
        ) : null}
      </FormFooter>
    </>
  );
}

function Preview({ body, isSound }: { body: string; isSound: boolean }) {
  const { shop } = useShop();
  const written = writeReply(body, { shop, ...exampleInquiry });
  const { positions, limit, parts } = textLength(plainText(written));
  return (
    <section aria-label="Preview" className="grid min-w-0 gap-3 rounded-lg border border-line bg-card p-4">
      <h3 className="text-base">As {exampleInquiry.name} would read it</h3>
      {isSound ? (
        <>
          <p className="wrap-anywhere whitespace-pre-wrap">{written}</p>
          <p role="status" className="text-sm text-ink-soft">
            As an SMS: {positions} of {limit} characters{parts > 1 ? `, charged as ${parts} SMS` : ''}
          </p>
        </>
      ) : (
        <p className="text-ink-soft">There is something to put right first.</p>
      )}
    </section>
  );
}
