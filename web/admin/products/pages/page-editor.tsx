// The dialog of a page's text.
import { useId, useState } from 'react';
import { formatCount } from '../../../../domain/count.ts';
import {
  DialogBody,
  DialogHeading,
  DialogOrDrawer,
  useKeepOpen,
} from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextArea } from '../../../ui/field.tsx';
import { useSave } from '../../data/use-save.ts';
import { DialogLoadState } from '../../dialogs/dialog-load-state.tsx';
import { FormFooter } from '../../dialogs/form-footer.tsx';
import { ChangedNotice } from '../../dialogs/row-form.tsx';
import { useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { type PageRow, pageTextLength, pathOf, type usePages, writePageText } from './page-queries.ts';

/** The value of `?edit=` for a page. */
export const idOf = ({ kind, slug }: PageRow): string => `${kind}-${slug}`;

export function PageDialog({ query }: { query: ReturnType<typeof usePages> }) {
  const { id, shownId, close } = useDialogParameter('edit');
  const found = query.data ? (query.data.find((page) => idOf(page) === shownId) ?? null) : undefined;
  return (
    <DialogOrDrawer hasOwnEntry={false} open={id !== null} onClose={close}>
      {found ? (
        <Editor key={shownId} current={found} onClose={close} />
      ) : (
        <DialogLoadState title="Page" noun="page" row={found} query={query} onClose={close} />
      )}
    </DialogOrDrawer>
  );
}

function Editor({ current, onClose }: { current: PageRow; onClose(): void }) {
  const { tables } = useMember().staff;
  const id = useId();
  // The text at opening: a change by a colleague is reported, and does not change the form.
  const [seen, setSeen] = useState(current);
  const [text, setText] = useState(current.page_text);
  const unsaved = useUnsaved(text.trim() !== seen.page_text);
  const save = useSave({
    write: () => writePageText(tables, text, seen),
    success: 'Text saved successfully',
    failure: 'Failed to save the text',
    refresh: ['pages'],
    onSuccess() {
      unsaved.note(false);
      onClose();
    },
  });
  useKeepOpen(save.isPending);
  const isChanged = !save.isPending && !save.isSuccess && current.page_text !== seen.page_text;
  return (
    <>
      <DialogHeading title={`Page of ${seen.name}`} description={pathOf(seen)} />
      <DialogBody>
        <form
          id={id}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (save.isPending || isChanged) return;
            if (text.trim() === seen.page_text) onClose();
            else save.mutate();
          }}
          className="grid gap-4"
        >
          {isChanged ? (
            <ChangedNotice
              onTakeTheirs={() => {
                setSeen(current);
                setText(current.page_text);
              }}
              onKeepMine={() => setSeen(current)}
            >
              <span className="block max-h-40 overflow-y-auto whitespace-pre-line">
                {current.page_text || 'There is no text now.'}
              </span>
            </ChangedNotice>
          ) : null}
          <TextArea
            label="Text"
            name="page_text"
            rows={8}
            maxLength={pageTextLength}
            value={text}
            hint="Shown above the drinks. Search engines show its first 160 characters. Empty: only the drinks."
            onChange={({ target }) => setText(target.value)}
          />
          <p className="text-sm text-ink-soft tabular-nums">
            {formatCount(text.trim().length)} of {formatCount(pageTextLength)} characters
          </p>
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        isBusy={save.isPending}
        disabled={isChanged}
        form={id}
        onCancel={onClose}
      />
    </>
  );
}
