// The dialog that edits a template, with its placeholders and a preview with an example order. Open while the URL has
// `?edit=<id>`.
import { useId, useRef, useState } from 'react';
import { checkTemplate, exampleFacts, placeholdersOf, readerOf } from '../../../domain/customer-message.ts';
import { textLength } from '../../../domain/text-message.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea, TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { DialogLoadState } from '../dialogs/dialog-load-state.tsx';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useDialogParameter } from '../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../dialogs/use-unsaved.ts';
import { Placeholders } from '../ui/placeholders.tsx';
import { formOf, type Template, type TemplateForm, useTemplateSave } from './message-queries.ts';
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

const isSame = (one: TemplateForm, other: TemplateForm) =>
  one.subject === other.subject && one.body === other.body && one.isOn === other.isOn;

function Editor({ current, onClose }: { current: Template; onClose(): void }) {
  const id = useId();
  const form = useRef<HTMLFormElement>(null);
  // The values at opening: a background refresh is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [typed, setTyped] = useState(() => formOf(current));
  const [isChecked, setChecked] = useState(false);
  const unsaved = useUnsaved(!isSame(typed, formOf(seen)));
  const save = useTemplateSave(() => {
    unsaved.note(false);
    onClose();
  });
  useKeepOpen(save.isPending);

  const { kind, channel } = current;
  const placeholders = placeholdersOf(kind);
  const problems = checkTemplate({ subject: typed.subject, body: typed.body }, channel, kind);
  const isChanged =
    !save.isPending &&
    !save.isSuccess &&
    current.updated_at !== seen.updated_at &&
    !isSame(formOf(current), formOf(seen));
  const change = (changes: Partial<TemplateForm>) => setTyped((now) => ({ ...now, ...changes }));

  function submit(from: Template) {
    setChecked(true);
    const [first] = Object.keys(problems);
    if (first) {
      // After the error is rendered, so that screen readers read it with the field.
      requestAnimationFrame(() => (form.current?.elements.namedItem(first) as HTMLElement | null)?.focus());
      return;
    }
    save.mutate({ form: typed, seen: from });
  }

  return (
    <>
      <DialogHeading
        title={`${kindLabel(kind)}: ${channel === 'mail' ? 'mail' : 'text message'}`}
        description="Used from the next message on"
      />
      <DialogBody>
        <div className="grid items-start gap-6 md:grid-cols-2">
          <form
            ref={form}
            id={id}
            noValidate
            onSubmit={(event) => {
              event.preventDefault();
              if (!save.isPending) submit(seen);
            }}
            className="grid min-w-0 gap-5"
          >
            {isChanged ? (
              <Notice tone="danger" title="Someone else changed this">
                <span className="grid gap-3">
                  <span className="block break-words whitespace-pre-wrap">
                    {current.is_on ? '' : 'Switched off. '}
                    {current.body}
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
            {channel === 'mail' ? (
              <TextField
                label="Subject"
                name="subject"
                required
                autoComplete="off"
                value={typed.subject}
                problem={isChecked ? problems.subject : undefined}
                onChange={({ target }) => change({ subject: target.value })}
              />
            ) : null}
            <TextArea
              label="Message"
              name="body"
              required
              rows={channel === 'mail' ? 14 : 5}
              value={typed.body}
              problem={isChecked ? problems.body : undefined}
              hint="Text in [ ] is left out when one of its placeholders is empty."
              onChange={({ target }) => change({ body: target.value })}
            />
            <Placeholders words={placeholders} form={form} onInsert={(body) => change({ body })} />
          </form>
          <Preview typed={typed} kind={kind} channel={channel} isSound={Object.keys(problems).length === 0} />
        </div>
      </DialogBody>
      <FormFooter unsaved={unsaved} isBusy={save.isPending} disabled={isChanged} form={id} onCancel={onClose}>
        <Button
          tone="quiet"
          onClick={() => change({ subject: current.default_subject ?? '', body: current.default_body })}
          className="mr-auto"
        >
          Restore original
        </Button>
      </FormFooter>
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
