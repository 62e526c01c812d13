// Whether changes of other devices currently arrive.
import type { LiveState } from '../live/use-live-changes.ts';

const liveLabels: Record<LiveState, [title: string, dot: string, words: string]> = {
  connecting: ['Connecting to live updates', 'bg-ember-300', 'Connecting...'],
  live: ['Live: changes appear by themselves', 'bg-leaf-500', 'Live'],
  lost: ['Live updates are interrupted; trying again', 'bg-danger', 'Reconnecting...'],
};

/** @param isSpelledOut whether words are beside the dot in every state; otherwise only while the connection is lost */
export function LiveDot({ state, isSpelledOut = false }: { state: LiveState; isSpelledOut?: boolean }) {
  const [title, dot, words] = liveLabels[state];
  return (
    <span
      role="status"
      title={title}
      className="flex items-center gap-1.5 text-xs font-semibold whitespace-nowrap text-ink-soft"
    >
      <span aria-hidden="true" className={`size-2.5 shrink-0 rounded-pill forced-color-adjust-none ${dot}`} />
      {isSpelledOut ? <span aria-hidden="true">{words}</span> : null}
      {!isSpelledOut && state === 'lost' ? words : <span className="sr-only">{title}</span>}
    </span>
  );
}
