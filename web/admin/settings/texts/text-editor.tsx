// Edits one text in Markdown, with its placeholders and a preview.
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import {
  checkShopText,
  fillShopText,
  type ShopTextFacts,
  shopTextLimits,
  shopTextPlaceholders,
} from '../../../../domain/messages/shop-text.ts';
import { renderMarkdown } from '../../../lib/render-markdown.ts';
import { Button } from '../../../ui/button.tsx';
import { TextArea, TextField } from '../../../ui/field.tsx';
import { Prose } from '../../../ui/prose.tsx';
import { ConflictError } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { ConfirmDialog } from '../../dialogs/confirm-dialog.tsx';
import { ChangedNotice } from '../../dialogs/row-form.tsx';
import { isAnotherScreen, useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { Placeholders } from '../../ui/placeholders.tsx';
import { formOf, isSameText, type ShopTextForm, type ShopTextRow, writeShopText } from './text-queries.ts';

/**
 * @param latest the current text, which may differ from the one that the member edits
 * @param facts settings that the text quotes
 */
export function TextEditor({ latest, facts }: { latest: ShopTextRow; facts: ShopTextFacts }) {
  const { tables } = useMember().staff;
  const queries = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  const [seen, setSeen] = useState(latest);
  const [typed, setTyped] = useState<ShopTextForm>(() => formOf(latest));
  const [isChecked, setChecked] = useState(false);
  const problems = checkShopText(typed);
  const isDirty = !isSameText(typed, seen);
  const isOther = latest.updated_at > seen.updated_at;

  const begin = (text: ShopTextRow) => {
    setSeen(text);
    setTyped(formOf(text));
    setChecked(false);
  };
  // Without edits the form shows the current text; so it does when it is what was typed: the member's own save, whose answer
  // was lost.
  const isShown = !isDirty || isSameText(formOf(latest), typed);
  if (isOther && isShown) begin(latest);
  const isInConflict = isOther && !isShown;
  const unsaved = useUnsaved(isDirty, isAnotherScreen);

  const save = useSave({
    write: () => writeShopText(tables, typed, seen),
    success: 'Text saved successfully',
    failure: 'Failed to save the text',
    refresh: ['texts'],
    isShownElsewhere: (error) => error instanceof ConflictError,
    onSuccess(saved) {
      if (!saved) return;
      begin(saved);
      queries.setQueryData<ShopTextRow[]>(['texts', 'all'], (texts) =>
        texts?.map((text) => (text.slug === saved.slug ? saved : text)),
      );
    },
  });

  const change = (changes: Partial<ShopTextForm>) => setTyped((now) => ({ ...now, ...changes }));

  function submit() {
    if (!isDirty || save.isPending || isInConflict) return;
    setChecked(true);
    const [first] = Object.keys(problems);
    if (!first) return save.mutate();
    // After the error is rendered, so that screen readers read it with the field.
    requestAnimationFrame(() => (form.current?.elements.namedItem(first) as HTMLElement | null)?.focus());
  }

  return (
    <div className="grid items-start gap-6 lg:grid-cols-2">
      <form
        ref={form}
        noValidate
        aria-label={seen.title}
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
        className="grid min-w-0 gap-5"
      >
        {isInConflict ? (
          <ChangedNotice
            title="Another staff member changed this text"
            onTakeTheirs={() => begin(latest)}
            onKeepMine={() => setSeen(latest)}
          >
            <span className="block max-h-60 overflow-y-auto">
              {latest.title}
              {'\n\n'}
              {latest.body}
            </span>
          </ChangedNotice>
        ) : null}
        <TextField
          label="Title"
          name="title"
          required
          autoComplete="off"
          maxLength={shopTextLimits.title}
          value={typed.title}
          problem={isChecked ? problems.title : undefined}
          onChange={({ target }) => change({ title: target.value })}
        />
        <TextArea
          label="Text"
          name="body"
          required
          rows={24}
          value={typed.body}
          problem={isChecked ? problems.body : undefined}
          hint="Markdown: ## heading, - list, **bold**, [words](https://address). HTML and images are not shown."
          onChange={({ target }) => change({ body: target.value })}
        />
        <Placeholders words={shopTextPlaceholders} form={form} onInsert={(body) => change({ body })} />
        <div className="sticky bottom-0 z-10 -mx-4 flex flex-wrap items-center gap-3 border-t border-line bg-paper px-4 py-3 md:mx-0 md:px-0">
          <Button
            type="submit"
            isBusy={save.isPending}
            aria-disabled={!isDirty || isInConflict || save.isPending}
          >
            {save.isPending ? 'Saving...' : 'Save'}
          </Button>
          <Button tone="quiet" onClick={() => change({ title: seen.default_title, body: seen.default_body })}>
            Restore original
          </Button>
          <p role="status" className="text-sm font-semibold text-ink-soft">
            {isDirty ? 'Not saved yet' : ''}
          </p>
        </div>
      </form>
      <Preview typed={typed} facts={facts} />
      <ConfirmDialog
        hasOwnEntry={false}
        open={unsaved.isBlocked}
        title="Leave without saving?"
        text={`What you changed in “${seen.title}” is not saved yet.`}
        confirm="Leave without saving"
        onConfirm={() => unsaved.leave()}
        onCancel={() => unsaved.stay()}
      />
    </div>
  );
}

function Preview({ typed, facts }: { typed: ShopTextForm; facts: ShopTextFacts }) {
  return (
    <section aria-label="Preview" className="min-w-0 rounded-lg border border-line bg-card p-5 md:p-6">
      <h2 className="mb-4 text-2xl font-extrabold break-words">{typed.title}</h2>
      <Prose html={renderMarkdown(fillShopText(typed.body, facts))} />
    </section>
  );
}
