// One slim bar that offers to undo what was just changed: the last change, or all of them. It lies over words of the header and never
// over a control.
import { useEffect, useId, useLayoutEffect, useState } from 'react';
import { Icon } from '../../ui/icons.tsx';
import { type OfferedChange, undoAll, withdrawAll } from './undoable-changes.ts';

export function UndoBarContent({
  changes,
  last,
}: {
  changes: readonly OfferedChange[];
  last: OfferedChange;
}) {
  const place = usePlace();
  const list = useId();
  const [isOpen, setOpen] = useState(false);
  const isOne = changes.length === 1;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: Escape closes the list from any of its buttons
    <div
      data-bar
      style={place}
      onFocus={({ relatedTarget }) => {
        if (relatedTarget instanceof Element && !relatedTarget.closest('[data-bar]'))
          focusedBefore = relatedTarget;
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !isOpen) return;
        event.stopPropagation();
        setOpen(false);
      }}
      className="on-dusk fixed z-[70] rounded-lg bg-dusk-900 text-white shadow-lg print:hidden"
    >
      <div className="flex h-12 items-center gap-1 pr-1 pl-3">
        <Icon name="check" className="size-4 shrink-0 text-leaf-300 max-md:hidden" />
        <p className="grid min-w-0 flex-1 leading-tight md:px-1">
          <span className="text-sm max-md:line-clamp-2 max-md:text-xs md:truncate">
            <b>{isOne ? last.title : `${changes.length} changed`}</b>
            {/* On a phone for screen readers alone; clipped with its line. */}
            {isOne ? (
              <span className="text-dusk-200 max-lg:sr-only">
                {' · '}
                <span>{last.success}</span>
              </span>
            ) : null}
          </span>
          {isOne && last.notifiesCustomer ? (
            <span className="truncate text-xs text-dusk-200 max-md:sr-only">
              Then the customer is notified
            </span>
          ) : null}
        </p>
        {isOne ? (
          <UndoButton change={last} />
        ) : (
          <>
            <button type="button" onClick={() => undo(changes)} className={button}>
              Undo all
            </button>
            <button
              type="button"
              aria-expanded={isOpen}
              aria-controls={list}
              onClick={() => setOpen(!isOpen)}
              className={button}
            >
              {isOpen ? 'Hide' : 'Show'}
            </button>
          </>
        )}
        <button
          type="button"
          aria-label="Keep what was changed"
          title="Keep what was changed"
          onClick={withdrawAll}
          className="grid size-11 shrink-0 place-items-center rounded-md text-dusk-200 hover:bg-white/10 hover:text-white max-md:hidden"
        >
          <Icon name="close" className="size-4" />
        </button>
      </div>
      {isOpen && !isOne ? (
        <ul id={list} className="grid max-h-[50vh] overflow-y-auto border-t border-white/15 py-1 pr-1 pl-4">
          {changes.map((change) => (
            <li key={change.id} className="flex items-center justify-between gap-3">
              <span className="min-w-0 text-sm leading-tight">
                <span className="block wrap-anywhere">{change.title}</span>
                {change.notifiesCustomer ? (
                  <span className="block text-xs text-dusk-200">Then the customer is notified</span>
                ) : null}
              </span>
              <UndoButton change={change} />
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  );
}

const button =
  'min-h-11 shrink-0 rounded-md px-1.5 text-sm md:px-2.5 font-bold text-ember-300 tabular-nums hover:bg-white/10 hover:text-white';

function UndoButton({ change }: { change: OfferedChange }) {
  return (
    <button type="button" onClick={() => undo([change])} aria-keyshortcuts="Control+Z" className={button}>
      Undo<span className="sr-only"> {change.title}</span> <SecondsLeft until={change.endsAt} />
    </button>
  );
}

/** The element that had the focus before it came to the bar, whose buttons disappear. */
let focusedBefore: Element | null = null;

function undo(changes: readonly OfferedChange[]): void {
  const isInBar = document.activeElement?.closest('[data-bar]');
  if (isInBar && focusedBefore instanceof HTMLElement) focusedBefore.focus({ preventScroll: true });
  void undoAll(changes);
}

/** Over the words of the header, whose place is marked; narrow ones get as much as a phone has beside its controls. */
function usePlace() {
  const [place, setPlace] = useState<{ top: number; left: number; width: number }>();
  useLayoutEffect(() => {
    const words = document.querySelector('[data-undo-place]');
    if (!words) return;
    const measure = () => {
      const { top, left, width, height } = words.getBoundingClientRect();
      setPlace({ top: top + height / 2 - 24, left, width });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(words);
    window.addEventListener('resize', measure);
    return () => {
      observer.disconnect();
      window.removeEventListener('resize', measure);
    };
  }, []);
  return place;
}

/** Hidden from screen readers, which would repeat it every second. */
function SecondsLeft({ until }: { until: number }) {
  const secondsLeft = () => Math.max(0, Math.ceil((until - performance.now()) / 1000));
  const [seconds, setSeconds] = useState(secondsLeft);
  useEffect(() => {
    const timer = setInterval(() => setSeconds(secondsLeft), 250);
    return () => clearInterval(timer);
  });
  return (
    <span aria-hidden="true" className="inline-block min-w-7 text-right font-semibold text-dusk-200">
      {seconds} s
    </span>
  );
}
