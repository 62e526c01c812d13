// The cards of a section: its fields, and the screens it leads to.
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { LimitRaise } from '../payments-check/limit-raise.tsx';
import { FeeHistory } from '../prices/fee-history.tsx';
import { DaysOff, OpeningHours } from './hours/hours-fields.tsx';
import { RegisterUrls } from './register-urls.tsx';
import type { SectionId, SettingsCard } from './settings-sections.ts';
import { fieldInputs, labelOfField, type SettingsPlace, settingsSections } from './settings-sections.ts';
import {
  isFlag,
  neededFlags,
  type SettingsField,
  type SettingsForm,
  type SettingsProblems,
} from './settings-values.ts';
import { TestMessages } from './test-messages.tsx';

interface SectionCardsProps {
  section: SectionId;
  form: SettingsForm;
  problems: SettingsProblems;
  /** The field that the URL names. */
  found: SettingsField | null;
  onChange(field: SettingsField, value: string): void;
}

/** What stands below the fields of a card, by its title. */
const below: Record<string, ReactNode> = {
  Fee: <FeeHistory />,
  Refunds: <LimitRaise />,
};

/** Fields of several values. */
const listFields: Partial<Record<SettingsField, typeof OpeningHours>> = {
  opening_hours: OpeningHours,
  days_off: DaysOff,
};

/** What follows the fields of a section. */
const after: Partial<Record<SectionId, ReactNode>> = {
  payments: <RegisterUrls />,
  messages: <TestMessages />,
};

export function SectionCards({ section, ...fields }: SectionCardsProps) {
  const { cards, places } = settingsSections[section];
  const screens = places.filter(({ to }) => to);
  return (
    <>
      {cards.map((card) => (
        <Fields key={card.title} card={card} {...fields} />
      ))}
      {after[section]}
      {screens.length > 0 ? <Screens screens={screens} /> : null}
    </>
  );
}

function Fields({ card, ...fields }: Omit<SectionCardsProps, 'section'> & { card: SettingsCard }) {
  return (
    <Card title={card.title} description={card.description}>
      <div className="grid gap-4 md:grid-cols-2">
        {card.fields.map((name) => (
          <div
            key={name}
            className={
              (fields.found === name
                ? 'rounded-md outline-3 outline-offset-8 outline-ember-300 outline-solid'
                : '') + (listFields[name] ? ' min-w-0 md:col-span-2' : '')
            }
          >
            <Field name={name} {...fields} />
          </div>
        ))}
      </div>
      {below[card.title] ? <div className="mt-4">{below[card.title]}</div> : null}
    </Card>
  );
}

function Field({
  name,
  form,
  problems,
  onChange,
}: Omit<SectionCardsProps, 'section' | 'found'> & { name: SettingsField }) {
  const { alsoCalled: _, isOptional = false, label: __, hintWithoutNeeded, ...input } = fieldInputs[name];
  const label = labelOfField(name);
  const ListField = listFields[name];
  if (ListField) {
    return (
      <ListField
        name={name}
        label={label}
        hint={input.hint}
        value={form[name]}
        problem={problems[name]}
        onChange={(value) => onChange(name, value)}
      />
    );
  }
  if (isFlag(name)) {
    const needed = neededFlags[name];
    const isMissing = needed !== undefined && form[needed] !== 'yes';
    return (
      <>
        <label
          className={`flex min-h-11 items-center gap-3 text-sm font-semibold ${isMissing ? 'text-ink-faint' : 'cursor-pointer'}`}
        >
          <input
            type="checkbox"
            name={name}
            disabled={isMissing}
            aria-describedby={`${name}-hint`}
            checked={form[name] === 'yes'}
            onChange={({ target }) => onChange(name, target.checked ? 'yes' : 'no')}
            className="size-5 shrink-0 accent-leaf-600"
          />
          {label}
        </label>
        <p id={`${name}-hint`} className="text-sm text-ink-faint">
          {isMissing ? hintWithoutNeeded : input.hint}
        </p>
      </>
    );
  }
  return (
    <TextField
      {...input}
      name={name}
      label={label}
      required={!isOptional}
      autoComplete="off"
      value={form[name]}
      problem={problems[name]}
      onChange={({ target }) => onChange(name, target.value)}
    />
  );
}

/** Links to screens, each with what it is for. */
export function Screens({ screens }: { screens: readonly SettingsPlace[] }) {
  return (
    <ul className="divide-y divide-line overflow-hidden rounded-lg border border-line bg-card shadow-sm">
      {screens.map(({ label, words, to = '' }) => (
        <li key={label}>
          <Link to={to} className="flex min-h-13 items-center gap-3 px-5 py-2.5 hover:bg-paper-deep md:px-6">
            <span className="grid min-w-0 grow">
              <span className="font-semibold">{label}</span>
              <span className="text-sm text-ink-soft">{words}</span>
            </span>
            <span aria-hidden="true" className="text-ink-faint">
              ›
            </span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
