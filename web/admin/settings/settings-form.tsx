// The form of the settings, one section of it at a time. Typed values of all sections stay until saved or discarded, also if another
// member saves.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { Link, useLocation, useNavigate, useRevalidator, useSearchParams } from 'react-router';
import { Button } from '../../ui/button.tsx';
import { ConflictError } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { isAnotherScreen, useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { ImplausibleDialog } from '../prices/implausible-dialog.tsx';
import { questionsAboutFee } from '../prices/plausible-figures.ts';
import { useTypicalPrice } from '../prices/price-queries.ts';
import { usePriceUndo } from '../prices/use-price-undo.ts';
import { BackupsSection } from './backups/backups-section.tsx';
import { ChangedByOther } from './changed-by-other.tsx';
import { PagesSection } from './other-sections.tsx';
import { SectionCards } from './section-cards.tsx';
import { SettingsIndex } from './settings-index.tsx';
import { type Settings, writeSettings } from './settings-queries.ts';
import { readSection, sectionOf, sectionUrl, settingsSections } from './settings-sections.ts';
import {
  changedSettings,
  checkSettingsForm,
  type SettingsForm as Form,
  mergedSettings,
  type SettingsField,
  type SettingsProblems,
  settingsFields,
  settingsFormOf,
  settingsLabels,
  settingsValues,
  withNeededFlags,
} from './settings-values.ts';

const saved = 'Settings saved successfully';

/** @param latest the current settings, which may differ from those that the member edits */
export function SettingsForm({ latest }: { latest: Settings }) {
  const { tables } = useMember().staff;
  const { revalidate } = useRevalidator();
  const queries = useQueryClient();
  // The values at the first edit, and the edited values.
  const [seen, setSeen] = useState(latest);
  const [form, setForm] = useState(() => settingsFormOf(latest));
  const [problems, setProblems] = useState<SettingsProblems>({});
  const element = useRef<HTMLFormElement>(null);
  const conflict = useRef<HTMLDivElement>(null);
  const heading = useRef<HTMLHeadingElement>(null);

  const before = settingsFormOf(seen);
  const changed = changedSettings(before, form);
  const isDirty = changed.length > 0;
  // Right after a save, data read before it is outdated. ISO times of one zone compare as texts do.
  const isOther = latest.updated_at > seen.updated_at;

  const begin = (settings: Settings, with_: Form = settingsFormOf(settings)) => {
    setSeen(settings);
    setForm(with_);
    setProblems({});
  };
  // Without edits the form shows the current values; so it does when they are what was typed: the member's own save, whose
  // answer was lost.
  const isShown = !isDirty || changedSettings(settingsFormOf(latest), form).length === 0;
  if (isOther && isShown) begin(latest);
  const isInConflict = isOther && !isShown;

  const offerPriceUndo = usePriceUndo();
  const feeChange = () => {
    const [from, to] = [seen.delivery_fee, settingsValues(form).delivery_fee];
    return from === to ? null : { productId: null, name: 'Delivery fee', from, to };
  };
  const save = useSave({
    write: () => writeSettings(tables, settingsValues(form), seen.updated_at),
    // The offer to undo a change of the fee has this text.
    success: () => (feeChange() ? '' : saved),
    failure: 'Failed to save settings',
    refresh: ['settings'],
    // The panel above the form shows both versions.
    isShownElsewhere: (error) => error instanceof ConflictError,
    onSuccess(row) {
      const change = feeChange();
      if (change) offerPriceUndo(change, saved);
      if (!row) return;
      begin(row);
      queries.setQueryData(['settings', 'row'], row);
      // Updates the shop's name in the panel itself.
      void revalidate();
    },
  });

  useEffect(() => {
    if (isInConflict) conflict.current?.focus();
  }, [isInConflict]);

  const leaving = useUnsaved(isDirty, isAnotherScreen);

  const [parameters] = useSearchParams();
  const chosen = readSection(parameters.get('section'));
  const section = chosen ?? 'shop';
  const found = settingsFields.find((field) => field === parameters.get('field')) ?? null;
  const focusField = (name: SettingsField) => {
    const input = element.current?.elements.namedItem(name);
    if (!(input instanceof HTMLElement)) return;
    input.focus();
    input.scrollIntoView({ block: 'center' });
  };
  const navigate = useNavigate();
  const { pathname, search } = useLocation();
  const isFirst = useRef(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a navigation to a section or field moves the focus
  useEffect(() => {
    if (found) focusField(found);
    else if (!isFirst.current) heading.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [search]);

  const typicalPrice = useTypicalPrice();
  const [questions, setQuestions] = useState<string[] | null>(null);
  function submit() {
    if (!isDirty || save.isPending) return;
    if (isInConflict) {
      conflict.current?.focus();
      return;
    }
    const found = checkSettingsForm(form);
    setProblems(found);
    const first = settingsFields.find((field) => found[field]);
    if (first && sectionOf(first) === section) focusField(first);
    else if (first) void navigate(sectionUrl(sectionOf(first), first));
    else {
      const asked = questionsAboutFee(seen.delivery_fee, settingsValues(form).delivery_fee, typicalPrice);
      if (asked.length > 0) setQuestions(asked);
      else save.mutate();
    }
  }

  function change(name: SettingsField, value: string) {
    setForm((now) => withNeededFlags({ ...now, [name]: value }));
    if (problems[name]) setProblems(({ [name]: _, ...others }) => others);
  }

  const hasFields = settingsSections[section].cards.length > 0;
  return (
    <>
      {isInConflict ? (
        <ChangedByOther
          ref={conflict}
          before={before}
          mine={form}
          theirs={settingsFormOf(latest)}
          onKeepMine={() => begin(latest, mergedSettings(before, form, settingsFormOf(latest)))}
          onTakeTheirs={() => begin(latest)}
        />
      ) : null}
      <ImplausibleDialog
        questions={questions}
        onCancel={() => setQuestions(null)}
        onConfirm={() => {
          setQuestions(null);
          save.mutate();
        }}
      />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-6 lg:grid-cols-[13rem_minmax(0,1fr)] lg:gap-8">
        <div className={`lg:sticky lg:top-20 lg:self-start ${chosen ? 'max-lg:hidden' : ''}`}>
          <SettingsIndex
            chosen={chosen}
            changed={new Set(changed.map(sectionOf))}
            onChoose={(to) => to === pathname + search && found && focusField(found)}
          />
        </div>
        <form
          ref={element}
          noValidate
          aria-label="Settings"
          className="grid max-w-4xl grid-cols-[minmax(0,1fr)] content-start gap-5"
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
        >
          <div className={`grid grid-cols-[minmax(0,1fr)] gap-5 ${chosen ? '' : 'max-lg:hidden'}`}>
            <div>
              <p className="text-sm lg:hidden">
                <Link to="/admin/settings" className="tap font-semibold underline">
                  All settings
                </Link>
              </p>
              <h2 ref={heading} tabIndex={-1} className="text-2xl outline-none!">
                {settingsSections[section].title}
              </h2>
            </div>
            {section === 'pages' ? <PagesSection /> : null}
            {section === 'backups' ? <BackupsSection /> : null}
            {section === 'pages' ? null : (
              <SectionCards
                section={section}
                form={form}
                problems={problems}
                found={found}
                onChange={change}
              />
            )}
          </div>
          {/* On the left: toasts appear on the right, or above. */}
          <div
            data-save-bar
            className={`sticky bottom-0 z-10 -mx-4 max-md:bottom-[calc(3.5rem+env(safe-area-inset-bottom))] flex-wrap items-center gap-3 border-t border-line bg-paper px-4 py-3 md:mx-0 md:px-0 ${
              isDirty ? 'flex' : hasFields ? (chosen ? 'flex' : 'hidden lg:flex') : 'hidden'
            }`}
          >
            {/* Not disabled without changes: disabling it after saving would lose the focus. */}
            <Button type="submit" isBusy={save.isPending} aria-disabled={!isDirty || save.isPending}>
              {save.isPending ? 'Saving...' : 'Save Settings'}
            </Button>
            <Button
              tone="quiet"
              aria-disabled={!isDirty || save.isPending}
              onClick={() => save.isPending || begin(latest)}
            >
              Discard
            </Button>
            <p role="status" className="text-sm font-semibold text-ink-soft">
              {isDirty ? `Not saved yet: ${changed.map((name) => settingsLabels[name]).join(', ')}` : ''}
            </p>
          </div>
        </form>
      </div>
      <ConfirmDialog
        hasOwnEntry={false}
        open={leaving.isBlocked}
        title="Leave without saving?"
        text={`What you changed (${changed.map((name) => settingsLabels[name]).join(', ')}) is not saved yet.`}
        confirm="Leave without saving"
        onConfirm={() => leaving.leave()}
        onCancel={() => leaving.stay()}
      />
    </>
  );
}
