// Conflicting changes of the settings: the other member's values next to this one's.
import type { Ref } from 'react';
import { Button } from '../../ui/button.tsx';
import { changedSettings, describeField, type SettingsForm, settingsLabels } from './settings-values.ts';

interface ChangedByOtherProps {
  ref: Ref<HTMLDivElement>;
  /** The version that both of them saw. */
  before: SettingsForm;
  mine: SettingsForm;
  theirs: SettingsForm;
  onKeepMine(): void;
  onTakeTheirs(): void;
}

export function ChangedByOther({ ref, before, mine, theirs, onKeepMine, onTakeTheirs }: ChangedByOtherProps) {
  const [ours, others] = [changedSettings(before, mine), changedSettings(before, theirs)];
  return (
    <div
      ref={ref}
      tabIndex={-1}
      role="alert"
      className="grid gap-3 rounded-lg border border-ember-300 bg-ember-50 p-5 outline-none!"
    >
      <h2 className="text-xl">Someone else changed the settings</h2>
      <p className="text-sm">Nothing of yours is lost, and nothing is saved yet.</p>
      <ul className="grid gap-2">
        {others.map((field) => {
          const isOurs = ours.includes(field) && mine[field].trim() !== theirs[field].trim();
          return (
            <li key={field} className="text-sm break-words">
              <strong>{settingsLabels[field]}</strong> is now “{describeField(field, theirs[field])}”, it was
              “{describeField(field, before[field])}”.
              {isOurs ? <> Yours: “{describeField(field, mine[field])}”.</> : null}
            </li>
          );
        })}
      </ul>
      <div className="flex flex-wrap gap-3">
        <Button onClick={onKeepMine}>Keep my changes</Button>
        <Button tone="quiet" onClick={onTakeTheirs}>
          Keep their changes
        </Button>
      </div>
      <p className="text-sm text-ink-soft">
        Keeping yours leaves their changes in the fields you did not touch. You can look it over before you
        save.
      </p>
    </div>
  );
}
