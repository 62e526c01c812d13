// The fields of opening hours and days off.
import { useRef } from 'react';
import type { DayOff, OpenSpan } from '../../../../domain/deliveries/delivery-promise.ts';
import { Button } from '../../../ui/button.tsx';
import { inputStyle } from '../../../ui/field.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { Choices } from '../../ui/choices.tsx';
import {
  always,
  endsNextDay,
  nextDayOf,
  readDaysOff,
  readSpans,
  sameEveryDay,
  weekdays,
  writeDaysOff,
  writeSpans,
} from './hours-values.ts';

interface HoursFieldProps {
  name: string;
  label: string;
  hint: string | undefined;
  value: string;
  problem: string | undefined;
  onChange(value: string): void;
}

/** What a shop that chooses opening hours begins with. */
const usual = writeSpans(weekdays.map(([day]) => ({ day, from: '08:00', to: '22:00' })));

/** On a phone without the browser's clock, which takes the place of the time. */
const timeStyle = `${inputStyle} px-2.5! tabular-nums max-sm:px-1.5! max-sm:[&::-webkit-calendar-picker-indicator]:hidden`;

export function OpeningHours({ name, label, hint, value, problem, onChange }: HoursFieldProps) {
  const spans = readSpans(value);
  const field = useRef<HTMLFieldSetElement>(null);
  const replace = (old: OpenSpan, changes: Partial<OpenSpan>) =>
    onChange(writeSpans(spans.map((span) => (span === old ? { ...span, ...changes } : span))));
  function remove(old: OpenSpan) {
    onChange(writeSpans(spans.filter((span) => span !== old)));
    // The pressed button disappears.
    field.current?.focus();
  }
  /** Beside the day that the problem names; otherwise below all days. */
  const isOfDay = (dayName: string) => problem?.startsWith(`${dayName}:`) ?? false;
  const isOfOneDay = weekdays.some(([, dayName]) => isOfDay(dayName));
  const isVaried = weekdays.some(
    ([day]) =>
      timesOf(spans, day) !==
      timesOf(spans, weekdays.find(([each]) => timesOf(spans, each) !== '')?.[0] ?? day),
  );
  return (
    <fieldset
      ref={field}
      name={name}
      tabIndex={-1}
      aria-label={label}
      aria-describedby={problem ? `${name}-problem` : `${name}-hint`}
      className="grid min-w-0 gap-3 outline-none!"
    >
      <Choices
        label="When you deliver"
        value={value === always ? 'always' : 'hours'}
        options={[
          { value: 'always', label: 'Always' },
          { value: 'hours', label: 'Opening hours' },
        ]}
        onChoose={(choice) => onChange(choice === 'always' ? always : usual)}
      />
      <p id={`${name}-hint`} className="text-sm text-ink-faint">
        {hint}
      </p>
      {value === always ? null : (
        <>
          <ul className="grid divide-y divide-line rounded-lg border border-line">
            {weekdays.map(([day, dayName]) => {
              const own = spans.filter((span) => span.day === day);
              return (
                <li
                  key={day}
                  aria-label={dayName}
                  className="grid grid-cols-[minmax(0,1fr)_auto] items-start gap-x-3 gap-y-1 px-3 py-1.5 sm:grid-cols-[7rem_minmax(0,1fr)_auto]"
                >
                  <p className="py-2.5 text-sm font-semibold">{dayName}</p>
                  <div className="grid gap-1.5 max-sm:col-span-full max-sm:row-start-2">
                    {own.map((span, index) => (
                      <div
                        key={index}
                        className="grid grid-cols-[minmax(0,8.75rem)_auto_minmax(0,8.75rem)_auto] items-center justify-start gap-x-2 gap-y-1"
                      >
                        <input
                          type="time"
                          required
                          aria-label={`${dayName} from`}
                          value={span.from}
                          onChange={({ target }) => replace(span, { from: target.value })}
                          className={timeStyle}
                        />
                        <span aria-hidden="true">–</span>
                        <input
                          type="time"
                          required
                          aria-label={`${dayName} until`}
                          value={span.to}
                          onChange={({ target }) => replace(span, { to: target.value })}
                          className={timeStyle}
                        />
                        <button
                          type="button"
                          aria-label={`Remove ${dayName} ${span.from} to ${span.to}`}
                          onClick={() => remove(span)}
                          className="grid size-11 place-items-center rounded-md text-ink-soft hover:bg-paper-deep hover:text-ink"
                        >
                          <Icon name="close" className="size-4.5" />
                        </button>
                        {endsNextDay(span) ? (
                          <span className="col-span-full text-sm text-ink-soft">until {nextDayOf(span)}</span>
                        ) : null}
                      </div>
                    ))}
                    {own.length === 0 ? <p className="py-2.5 text-sm text-ink-soft">Closed</p> : null}
                    {isOfDay(dayName) ? <Problem name={name} problem={problem} /> : null}
                  </div>
                  <Button
                    tone="quiet"
                    aria-label={`Add a time on ${dayName}`}
                    className="px-4! max-sm:col-start-2 max-sm:row-start-1"
                    onClick={() =>
                      onChange(
                        writeSpans([
                          ...spans,
                          own.length === 0
                            ? { day, from: '08:00', to: '22:00' }
                            : { day, from: own.at(-1)?.to ?? '', to: '' },
                        ]),
                      )
                    }
                  >
                    Add
                  </Button>
                </li>
              );
            })}
          </ul>
          {isVaried ? (
            <Button
              tone="quiet"
              className="justify-self-start"
              onClick={() => {
                onChange(sameEveryDay(value));
                field.current?.focus();
              }}
            >
              The same on every day
            </Button>
          ) : null}
        </>
      )}
      {isOfOneDay ? null : <Problem name={name} problem={problem} />}
    </fieldset>
  );
}

const timesOf = (spans: readonly OpenSpan[], day: number): string =>
  spans
    .filter((span) => span.day === day)
    .map(({ from, to }) => `${from}-${to}`)
    .sort()
    .join();

export function DaysOff({ name, label, hint, value, problem, onChange }: HoursFieldProps) {
  const days = readDaysOff(value);
  const field = useRef<HTMLFieldSetElement>(null);
  const replace = (old: DayOff, changes: Partial<DayOff>) =>
    onChange(writeDaysOff(days.map((day) => (day === old ? { ...day, ...changes } : day))));
  return (
    <fieldset
      ref={field}
      name={name}
      tabIndex={-1}
      aria-describedby={problem ? `${name}-problem` : `${name}-hint`}
      className="grid min-w-0 gap-2 outline-none!"
    >
      <legend className="mb-1 text-sm font-semibold">{label}</legend>
      <p id={`${name}-hint`} className="text-sm text-ink-faint">
        {hint}
      </p>
      {days.length > 0 ? (
        <ul className="grid gap-2">
          {days.map((off, index) => (
            <li key={index} className="flex flex-wrap items-center gap-2">
              <input
                type="date"
                required
                aria-label="Day off"
                value={off.day}
                onChange={({ target }) => replace(off, { day: target.value })}
                className={`${inputStyle} w-42!`}
              />
              <input
                type="text"
                required
                aria-label="Reason"
                placeholder="Such as Christmas"
                autoComplete="off"
                maxLength={80}
                value={off.reason}
                onChange={({ target }) => replace(off, { reason: target.value })}
                className={`${inputStyle} min-w-40 flex-1 basis-40`}
              />
              <button
                type="button"
                aria-label={`Remove the day off ${off.day} ${off.reason}`}
                onClick={() => {
                  onChange(writeDaysOff(days.filter((day) => day !== off)));
                  field.current?.focus();
                }}
                className="grid size-11 place-items-center rounded-md text-ink-soft hover:bg-paper-deep hover:text-ink"
              >
                <Icon name="close" className="size-4.5" />
              </button>
            </li>
          ))}
        </ul>
      ) : null}
      <Button
        tone="quiet"
        className="justify-self-start"
        onClick={() => onChange(writeDaysOff([...days, { day: '', reason: '' }]))}
      >
        Add a day off
      </Button>
      <Problem name={name} problem={problem} />
    </fieldset>
  );
}

function Problem({ name, problem }: Pick<HoursFieldProps, 'name' | 'problem'>) {
  return problem ? (
    <p id={`${name}-problem`} role="alert" className="text-sm font-semibold text-danger">
      {problem}
    </p>
  ) : null;
}
