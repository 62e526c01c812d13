// The dialog that edits a template, with its placeholders and a preview with an example order. Open while the URL has
// `?edit=<id>`.
import {
  checkTemplate,
  exampleFacts,
  placeholdersOf,
  readerOf,
} from '../../../domain/messages/customer-message.ts';
import { textLength } from '../../../domain/messages/text-message.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { RowForm, RowFormFooter } from '../dialogs/row-form.tsx';
import { useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { useRowForm } from '../dialogs/use-row-form.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { Placeholders } from '../ui/placeholders.tsx';
import { formOf, type Template, type TemplateForm, writeTemplate } from './message-queries.ts';
import { kindLabel } from './message-texts.ts';
import { useExample } from './use-example.ts';

export function TemplateDialog({ templates }: { templates: Template[] | undefined }) {
  const { id, shownId, close } = useDialogParameter('edit');
  const template = templates && (templates.find((each) => each.id === shownId) ?? null);
  return (
    <DialogOrDrawer hasOwnEntry={false} size="wide" open={id !== null} onClose={close}>
      {template ? (
        <Editor key={template.id} current={template} onClose={close} />
      ) : (
        <DialogLoadState title="Template" noun="template" row={template} onClose={close} />
      )}
    </DialogOrDrawer>
  );
}

function Editor({ current, onClose }: { current: Template; onClose(): void }) {
  const { tables } = useMember().staff;
  const { kind, channel } = current;
  const form = useRowForm({
    current,
    formOf,
    check: ({ subject, body }) => checkTemplate({ subject, body }, channel, kind),
    write: (written, seen) => writeTemplate(tables, written, seen),
    success: 'Template saved successfully',
    failure: 'Failed to save the template',
    refresh: ['templates'],
    onClose,
  });
  const { typed, change, field } = form;
  return (
    <>
      <DialogHeading
        title={`${kindLabel(kind)}: ${channel === 'mail' ? 'mail' : 'text message'}`}
        description="Used from the next message on"
      />
      <DialogBody>
        <div className="grid items-start gap-6 md:grid-cols-2">
          <RowForm
            form={form}
            stored={`${current.is_on ? '' : 'Switched off. '}${current.body}`}
            className="gap-5"
          >
            <label className="flex min-h-11 items-center gap-3 font-semibold">
              <input
                type="checkbox"
                name="isOn"
                checked={typed.isOn}
                onChange={({ target }) => change({ isOn: target.checked })}
                className="size-5 accent-leaf-600"
              />
              {channel === 'mail' ? 'Send this mail' : 'Send this text'}
            </label>
            {channel === 'mail' ? <TextField label="Subject" required {...field('subject')} /> : null}
            <TextArea
              label="Message"
              required
              rows={channel === 'mail' ? 14 : 5}
              hint="Text in [ ] is left out when one of its placeholders is empty."
              {...field('body')}
            />
            <Placeholders
              words={placeholdersOf(kind)}
              form={form.element}
              onInsert={(body) => change({ body })}
            />
          </RowForm>
          <Preview
            typed={typed}
            kind={kind}
            channel={channel}
            isSound={Object.keys(form.problems).length === 0}
          />
        </div>
      </DialogBody>
      <RowFormFooter form={form} onCancel={onClose}>
        <Button
          tone="quiet"
          onClick={() => change({ subject: current.default_subject ?? '', body: current.default_body })}
          className="mr-auto"
        >
          Restore original
        </Button>
      </RowFormFooter>
    </>
  );
}

interface PreviewProps extends Pick<Template, 'kind' | 'channel'> {
  typed: TemplateForm;
  isSound: boolean;
}

const readers = {
  subscriber: 'As a subscriber gets it',
  waiting: 'As a visitor gets it who waits for a drink',
  staff: 'As staff get it',
  rider: 'As the rider gets it',
  customer: `As ${exampleFacts.customer_name} would read it`,
};

function Preview({ typed, kind, channel, isSound }: PreviewProps) {
  const { subject, body } = useExample()(typed, { kind, channel });
  const { positions, limit, parts } = textLength(body);
  return (
    <section aria-label="Preview" className="grid min-w-0 gap-3 rounded-lg border border-line bg-card p-4">
      <h3 className="text-base">{readers[readerOf(kind)]}</h3>
      {isSound ? (
        <>
          {subject ? <p className="font-semibold break-words">{subject}</p> : null}
          <p className="break-words whitespace-pre-wrap">{body}</p>
        </>
      ) : (
        <p className="text-ink-soft">There is something to put right first.</p>
      )}
      {channel === 'text' && isSound ? (
        <p role="status" className="text-sm text-ink-soft">
          {positions} of {limit} characters
          {parts > 1 ? `: charged as ${parts} messages` : ''}
          {limit === 70 ? '. A character that simple phones do not know leaves only 70.' : ''}
        </p>
      ) : null}
    </section>
  );
}
