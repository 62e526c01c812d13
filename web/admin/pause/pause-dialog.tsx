// Asks why the shop takes no orders, and for how long.

import { type FormEvent, useId, useState } from 'react';
import { pauseReasons, pauseSentence } from '../../../domain/orders/order-pause.ts';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { dataOf, TableProblem } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { FormFooter } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { Choices } from '../ui/choices.tsx';
import { NameInHistory } from '../ui/staff-name.tsx';
import { useNow } from '../ui/time/age.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { usePauseChanges } from './pause-queries.ts';

interface PauseDialogProps {
  isOpen: boolean;
  onClose(): void;
  onPaused(): void;
}

const other = 'other';
const reasons = [
  ...pauseReasons.map(({ label, words }) => ({ value: words, label })),
  { value: other, label: 'Other words' },
];
/** In minutes; empty: until staff resume. */
const spans = [
  { value: '30', label: '30 minutes' },
  { value: '60', label: '1 hour' },
  { value: '120', label: '2 hours' },
  { value: '', label: 'Until I resume' },
];

const isAboutReason = (error: Error): boolean =>
  error instanceof TableProblem && error.details === 'reason_invalid';

export function PauseDialog({ isOpen, onClose, onPaused }: PauseDialogProps) {
  return (
    <DialogOrDrawer open={isOpen} onClose={onClose}>
      <DialogHeading
        title="Pause orders"
        description="Customers cannot place new orders. Orders that exist are paid and delivered as usual."
      />
      <PauseForm onClose={onClose} onPaused={onPaused} />
    </DialogOrDrawer>
  );
}

function PauseForm({ onClose, onPaused }: Omit<PauseDialogProps, 'isOpen'>) {
  const { tables } = useMember().staff;
  const form = useId();
  const now = useNow();
  const [chosen, setChosen] = useState('');
  const [typed, setTyped] = useState('');
  const [minutes, setMinutes] = useState('30');
  const [problem, setProblem] = useState<string>();
  const unsaved = useUnsaved(chosen === other && typed.trim() !== '');
  const reason = (chosen === other ? typed : chosen).trim().replace(/[ .]+$/, '');
  const save = useSave({
    write: async () =>
      dataOf(await tables.rpc('pause_orders', { reason, minutes: minutes === '' ? null : Number(minutes) })),
    success: 'Orders are paused',
    failure: 'Failed to pause orders',
    refresh: ['settings'],
    onSuccess: onPaused,
    isShownElsewhere: isAboutReason,
  });
  function submit(event: FormEvent) {
    event.preventDefault();
    const found =
      chosen === ''
        ? 'Please choose why'
        : reason.length < 3
          ? 'Please write why, in 3 to 80 characters'
          : undefined;
    setProblem(found);
    if (!found) {
      save.mutate(undefined, {
        onError: (error) => isAboutReason(error) && setProblem(error.message),
      });
    }
  }
  const until = minutes === '' ? null : new Date(now + Number(minutes) * 60_000).toISOString();
  return (
    <>
      <DialogBody>
        <form id={form} onSubmit={submit} noValidate className="grid gap-5 pt-2">
          <Choices
            label="Why?"
            options={reasons}
            value={chosen}
            problem={chosen === '' ? problem : undefined}
            onChoose={(value) => {
              setChosen(value);
              setProblem(undefined);
            }}
          />
          {chosen === other ? (
            <TextField
              label="Your words"
              required
              autoFocus
              maxLength={80}
              autoComplete="off"
              placeholder="our road is flooded"
              value={typed}
              onChange={({ target }) => {
                setTyped(target.value);
                setProblem(undefined);
              }}
              problem={problem}
            />
          ) : null}
          <Choices label="For how long?" options={spans} value={minutes} onChoose={setMinutes} />
          <div className="rounded-md bg-paper-deep px-4 py-3 text-sm">
            <p className="text-ink-soft">Customers read:</p>
            <p className="font-semibold wrap-anywhere">
              {reason ? pauseSentence(reason, until) : pauseSentence('…', until).slice(0, -1)}
            </p>
          </div>
          <FormerPauses />
        </form>
      </DialogBody>
      <FormFooter
        unsaved={unsaved}
        form={form}
        label={save.isPending ? 'Pausing...' : 'Pause orders'}
        isBusy={save.isPending}
        onCancel={onClose}
      />
    </>
  );
}

/** Who paused orders and resumed them, and when. */
function FormerPauses() {
  const changes = usePauseChanges();
  if (!changes || changes.length === 0) return null;
  return (
    <details className="text-sm">
      <summary className="tap cursor-pointer font-semibold underline">Former pauses</summary>
      <ul className="mt-2 grid gap-1.5">
        {changes.map(({ id, reason, paused_until, changed_by_email, changed_at }) => (
          <li key={id} className="wrap-anywhere">
            <span className="font-semibold">
              {reason === null
                ? 'Resumed'
                : `${reason}, ${paused_until === null ? 'until resumed' : `until ${formatDateTime(paused_until)}`}`}
            </span>{' '}
            <span className="text-ink-soft">
              <NameInHistory email={changed_by_email} otherwise="The shop itself" />,{' '}
              {formatDateTime(changed_at)}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}
