// Search synonyms: what customers type and what it means in the catalogue. Changes apply to searches at once.
import { useQuery } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { Button } from '../../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../../ui/field.tsx';
import { changedRow, dataOf } from '../../data/table-answer.ts';
import { useSave } from '../../data/use-save.ts';
import { Discard } from '../../dialogs/discard.tsx';
import { FormButtons } from '../../dialogs/form-footer.tsx';
import { useUnsaved } from '../../dialogs/use-unsaved.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { DialogListLoadState } from '../../ui/load-states.tsx';
import {
  checkSynonym,
  foldWords,
  type SynonymForm,
  type SynonymProblems,
  synonymLimits,
  synonymProblemsOf,
} from './search-synonym.ts';

const refresh = ['synonyms'];

interface Synonym extends SynonymForm {
  id: string;
}

function useSynonyms() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: refresh,
    queryFn: async ({ signal }): Promise<Synonym[]> =>
      dataOf(
        await tables
          .from('search_synonyms')
          .select('id, word, means')
          .order('word')
          .limit(synonymLimits.count)
          .abortSignal(signal),
      ),
  });
}

interface SynonymsDialogProps {
  open: boolean;
  onClose(): void;
}

export function SynonymsDialog({ open, onClose }: SynonymsDialogProps) {
  return (
    <DialogOrDrawer open={open} onClose={onClose} size="large">
      <DialogHeading
        title="Search Words"
        description="Other words that customers type for your drinks, such as embe for mango. The shop's search follows at once."
      />
      <DialogBody>
        <Synonyms />
      </DialogBody>
    </DialogOrDrawer>
  );
}

function Synonyms() {
  const { data: synonyms, error, refetch } = useSynonyms();
  const [shown, setShown] = useState('');
  const [edited, setEdited] = useState<string | null>(null);
  // Where focus moves after an edit.
  const [last, setLast] = useState<string | null>(null);
  if (!synonyms) {
    return <DialogListLoadState noun="search words" error={error !== null} onRetry={() => void refetch()} />;
  }
  const searchText = foldWords(shown);
  const matching = synonyms.filter(({ word, means }) => `${word} ${means}`.includes(searchText));
  const otherWords = (id: string | null) =>
    synonyms.filter((other) => other.id !== id).map(({ word }) => word);
  return (
    <div className="grid gap-6 pt-2">
      <AddSynonym others={otherWords(null)} />
      <div className="grid gap-3">
        <TextField
          type="search"
          label="Find in the list"
          autoComplete="off"
          value={shown}
          maxLength={100}
          hint={`${matching.length} of ${synonyms.length} search words`}
          onChange={({ target }) => setShown(target.value)}
        />
        <ul aria-label="Search words" className="rounded-lg border border-line bg-card empty:hidden">
          {matching.map((synonym) => (
            <li key={synonym.id} className="border-line px-4 py-2 not-first:border-t">
              {edited === synonym.id ? (
                <EditSynonym
                  synonym={synonym}
                  others={otherWords(synonym.id)}
                  onDone={() => {
                    setEdited(null);
                    setLast(synonym.id);
                  }}
                />
              ) : (
                <SynonymRow
                  synonym={synonym}
                  isLast={last === synonym.id}
                  onEdit={() => setEdited(synonym.id)}
                />
              )}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}

interface SynonymFieldsProps {
  form: SynonymForm;
  problems: SynonymProblems;
  wordRef: React.RefObject<HTMLInputElement | null>;
  meansRef: React.RefObject<HTMLInputElement | null>;
  onChange(form: SynonymForm): void;
  isEdit?: boolean;
}

function SynonymFields({ form, problems, wordRef, meansRef, onChange, isEdit = false }: SynonymFieldsProps) {
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <TextField
        ref={wordRef}
        label={isEdit ? 'Customers type' : 'Customers type (new)'}
        autoComplete="off"
        autoCapitalize="none"
        maxLength={200}
        autoFocus={isEdit}
        value={form.word}
        problem={problems.word}
        onChange={({ target }) => onChange({ ...form, word: target.value })}
      />
      <TextField
        ref={meansRef}
        label="It means"
        autoComplete="off"
        autoCapitalize="none"
        maxLength={400}
        value={form.means}
        problem={problems.means}
        hint="Words of your drinks. Empty: any drink."
        onChange={({ target }) => onChange({ ...form, means: target.value })}
      />
    </div>
  );
}

/** State of a synonym's form: validated here first, then by the database. */
function useSynonymForm(first: SynonymForm, others: readonly string[]) {
  const [form, setForm] = useState(first);
  const [problems, setProblems] = useState<SynonymProblems>({});
  const isTyped = form.word !== first.word || form.means !== first.means;
  const unsaved = useUnsaved(isTyped);
  const [wordRef, meansRef] = [useRef<HTMLInputElement>(null), useRef<HTMLInputElement>(null)];
  function show(found: SynonymProblems): boolean {
    setProblems(found);
    if (found.word) wordRef.current?.focus();
    else if (found.means) meansRef.current?.focus();
    return Boolean(found.word || found.means);
  }
  return {
    fields: {
      form,
      problems,
      wordRef,
      meansRef,
      onChange(changed: SynonymForm) {
        setForm(changed);
        setProblems({});
      },
    },
    isTyped,
    unsaved,
    folded: { word: foldWords(form.word), means: foldWords(form.means) },
    check: () => !show(checkSynonym(form, others)),
    show,
    clear() {
      setForm(first);
      wordRef.current?.focus();
    },
  };
}

function AddSynonym({ others }: { others: readonly string[] }) {
  const { tables } = useMember().staff;
  const { fields, unsaved, folded, check, show, clear } = useSynonymForm({ word: '', means: '' }, others);
  const add = useSave<SynonymForm>({
    write: async (form) => dataOf(await tables.from('search_synonyms').insert(form).select('id')),
    success: 'Search word added',
    failure: 'Failed to add the search word',
    refresh,
    isShownElsewhere: (error) => synonymProblemsOf(error) !== null,
    onSuccess: clear,
  });
  return (
    <form
      noValidate
      aria-label="Add a search word"
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (add.isPending || !check()) return;
        add.mutate(folded, { onError: (error) => show(synonymProblemsOf(error) ?? {}) });
      }}
    >
      <SynonymFields {...fields} />
      {unsaved.isBlocked ? (
        <Discard onStay={unsaved.stay} onLeave={unsaved.leave} />
      ) : (
        <Button type="submit" isBusy={add.isPending} className="justify-self-end">
          {add.isPending ? 'Adding...' : 'Add Search Word'}
        </Button>
      )}
    </form>
  );
}

interface SynonymRowProps {
  synonym: Synonym;
  /** Whether it has just been edited. */
  isLast: boolean;
  onEdit(): void;
}

function SynonymRow({ synonym: { id, word, means }, isLast, onEdit }: SynonymRowProps) {
  const { tables } = useMember().staff;
  const [deletion, setDeletion] = useState<'none' | 'confirming' | 'cancelled'>('none');
  const remove = useSave({
    write: async () =>
      changedRow(
        await tables
          .from('search_synonyms')
          .delete()
          .eq('id', id)
          .eq('word', word)
          .eq('means', means)
          .select('id'),
      ),
    success: 'Search word deleted',
    failure: 'Failed to delete the search word',
    refresh,
  });
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <p className="min-w-40 flex-1 text-sm break-words">
        <strong>{word}</strong> <span className="text-ink-soft">means {means || 'any drink'}</span>
      </p>
      {deletion === 'confirming' ? (
        <div className="flex gap-2">
          <Button tone="quiet" autoFocus onClick={() => setDeletion('cancelled')} disabled={remove.isPending}>
            Keep<span className="sr-only"> {word}</span>
          </Button>
          <Button tone="danger" isBusy={remove.isPending} onClick={() => remove.mutate()}>
            Delete<span className="sr-only"> {word} for good</span>
          </Button>
        </div>
      ) : (
        <div className="flex gap-2">
          <Button tone="quiet" autoFocus={isLast} onClick={onEdit}>
            Edit<span className="sr-only"> {word}</span>
          </Button>
          <Button tone="quiet" autoFocus={deletion === 'cancelled'} onClick={() => setDeletion('confirming')}>
            Delete<span className="sr-only"> {word}</span>
          </Button>
        </div>
      )}
    </div>
  );
}

interface EditSynonymProps {
  synonym: Synonym;
  others: readonly string[];
  onDone(): void;
}

function EditSynonym({ synonym, others, onDone }: EditSynonymProps) {
  const { tables } = useMember().staff;
  // The row as the member saw it, even if a refresh brings another state.
  const [seen] = useState(synonym);
  const { fields, isTyped, unsaved, folded, check, show } = useSynonymForm(
    { word: seen.word, means: seen.means },
    others,
  );
  const save = useSave<SynonymForm>({
    write: async (form) =>
      changedRow(
        await tables
          .from('search_synonyms')
          .update(form)
          .eq('id', seen.id)
          .eq('word', seen.word)
          .eq('means', seen.means)
          .select('id'),
      ),
    success: 'Search word saved',
    failure: 'Failed to save the search word',
    refresh,
    isShownElsewhere: (error) => synonymProblemsOf(error) !== null,
    onSuccess: onDone,
  });
  return (
    <form
      noValidate
      aria-label={`Edit ${seen.word}`}
      className="grid gap-3 py-1"
      // Escape cancels the edit; it does not close the dialog. The dialog asks about typed words.
      data-own-escape={isTyped ? undefined : true}
      onKeyDown={(event) => {
        if (isTyped || event.key !== 'Escape') return;
        event.preventDefault();
        onDone();
      }}
      onSubmit={(event) => {
        event.preventDefault();
        if (folded.word === seen.word && folded.means === seen.means) return onDone();
        if (save.isPending || !check()) return;
        save.mutate(folded, {
          onError(error) {
            const problems = synonymProblemsOf(error);
            if (problems) show(problems);
            // The row has changed since the member saw it; the list shows its current state.
            else if (error.name === 'ConflictError') onDone();
          },
        });
      }}
    >
      <SynonymFields {...fields} isEdit />
      <FormButtons
        unsaved={unsaved}
        label={save.isPending ? 'Saving...' : 'Save Search Word'}
        isBusy={save.isPending}
        isCancelDisabled={save.isPending}
        onCancel={onDone}
      />
    </form>
  );
}
