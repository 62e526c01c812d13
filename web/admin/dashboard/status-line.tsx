// A part of the system with its state, as text besides colours.
import type { Line, State } from './describe-status.ts';

const dots: Record<State, string> = { ok: 'bg-leaf-500', attention: 'bg-ember-400', problem: 'bg-danger' };
const words: Record<State, string> = { ok: '', attention: 'Needs attention', problem: 'Problem' };
const colours: Record<State, string> = {
  ok: 'text-ink',
  attention: 'text-ember-800',
  problem: 'text-danger',
};

export function StatusLine({
  label,
  line,
  title,
}: {
  label: string;
  /** Null while it is being measured. */
  line: Line | null;
  title?: string | undefined;
}) {
  return (
    <div className="flex flex-wrap items-baseline gap-x-3">
      <dt className="flex grow items-center gap-3 font-semibold">
        <span
          aria-hidden="true"
          className={`size-2.5 shrink-0 rounded-pill forced-color-adjust-none ${line ? dots[line.state] : 'bg-line motion-safe:animate-pulse'}`}
        />
        {label}
      </dt>
      <dd
        title={title}
        className={`text-right font-semibold ${line ? colours[line.state] : 'text-ink-faint'}`}
      >
        {line ? line.value : 'Measuring...'}
      </dd>
      {line ? (
        <dd className="basis-full pl-5.5 text-sm text-ink-soft">
          {words[line.state] ? <strong className={colours[line.state]}>{words[line.state]}: </strong> : null}
          {line.detail}
        </dd>
      ) : null}
    </div>
  );
}
