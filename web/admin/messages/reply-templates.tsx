// The templates from which staff begin a reply to an inquiry: listed, added, edited and deleted. The dialog is open while the URL has
// `?reply=<id>`, or `?reply=new`.
import {
  checkReplyTemplate,
  exampleInquiry,
  replyPlaceholders,
  replyTemplateLimits,
  writeReply,
} from '../../../domain/messages/reply-template.ts';
import { plainText, textLength } from '../../../domain/messages/text-message.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { changedRow } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { RowForm, RowFormFooter } from '../dialogs/row-form.tsx';
import { useDialogOpener, useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { useRowForm } from '../dialogs/use-row-form.ts';
import { type ReplyTemplate, useReplyTemplates } from '../inquiries/inquiry-queries.ts';
import { useMember } from '../layout/roles/use-member.tsx';
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

const formOf = (template: ReplyTemplate | null) => ({
  title: template?.title ?? '',
  body: template?.body ?? '',
});

/** @param current null for a new one */
function Editor({ current, onClose }: { current: ReplyTemplate | null; onClose(): void }) {
  const { tables } = useMember().staff;
  const form = useRowForm({
    current,
    formOf,
    check: checkReplyTemplate,
    async write({ title, body }, seen) {
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
    onClose,
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
    onSuccess: form.end,
  });
  const { typed, change, field } = form;
  return (
    <>
      <DialogHeading
        title={current ? `Reply: ${current.title}` : 'New reply'}
        description="Offered with every inquiry"
      />
      <DialogBody>
        <div className="grid items-start gap-6 md:grid-cols-2">
          <RowForm
            form={form}
            stored={current ? `${current.title}: ${current.body}` : null}
            isBusy={form.isSaving || remove.isPending}
            className="gap-5"
          >
            <TextField
              label="Title"
              required
              maxLength={replyTemplateLimits.title}
              hint="Only staff read it"
              {...field('title')}
            />
            <TextArea
              label="Reply"
              required
              rows={8}
              hint="Text in [ ] is left out when one of its placeholders is empty."
              {...field('body')}
            />
            <Placeholders
              words={replyPlaceholders}
              form={form.element}
              onInsert={(body) => change({ body })}
            />
          </RowForm>
          <Preview body={typed.body} isSound={form.problems.body === undefined} />
        </div>
      </DialogBody>
      <RowFormFooter
        form={form}
        deletion={
          current && {
            question: 'Delete this reply for all staff?',
            confirm: 'Delete reply',
            isBusy: remove.isPending,
            run: () => remove.mutate(current),
          }
        }
        onCancel={onClose}
      />
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
