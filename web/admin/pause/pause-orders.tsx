// Stops new orders for a while: the button, and the banner during a pause (docs/decisions/pauses.md).

import { type ReactNode, type RefObject, useEffect, useRef, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMay, useMember } from '../layout/roles/use-member.tsx';
import { knownNameOf, shorten } from '../ui/known-names.ts';
import { useNow } from '../ui/time/age.tsx';
import { formatClock, formatDateTime } from '../ui/time/dates.ts';
import { formatMinutes } from '../ui/time/due.tsx';
import { PauseDialog } from './pause-dialog.tsx';
import { useOrderPause } from './pause-queries.ts';

/** For buttons beside a heading, which is not as high. */
export const flat = '-mt-1.5 -mb-1';

/**
 * The heading of a screen with the button beside it; during a pause the banner follows instead.
 * @param props.children the heading
 */
export function PausableHeading({ children }: { children: ReactNode }) {
  const pause = useOrderPause();
  const may = useMay();
  const [isOpen, setOpen] = useState(false);
  const banner = useRef<HTMLElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  // The pressed button disappears with its change: what replaces it takes the focus.
  const changes = useRef<'paused' | 'resumed' | null>(null);
  const isPaused = pause !== null;
  useEffect(() => {
    if (changes.current !== (isPaused ? 'paused' : 'resumed')) return;
    changes.current = null;
    (isPaused ? banner : button).current?.focus();
  }, [isPaused]);
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
        {children}
        <PauseStatus pause={pause} />
        {isPaused || !may('orders') ? null : (
          <Button
            ref={button}
            tone="quiet"
            aria-haspopup="dialog"
            onClick={() => setOpen(true)}
            className={`px-4! ${flat}`}
          >
            <Icon name="pause" className="size-4.5" />
            Pause orders
          </Button>
        )}
      </div>
      {pause ? (
        <Banner
          pause={pause}
          banner={banner}
          onResume={() => {
            changes.current = 'resumed';
          }}
        />
      ) : null}
      <PauseDialog
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        onPaused={() => {
          changes.current = 'paused';
          setOpen(false);
        }}
      />
    </>
  );
}

/**
 * The banner during a pause, for a screen without the button.
 * @param props.onResume called when the pressed button disappears with the banner
 */
export function PauseBanner({ onResume }: Pick<BannerProps, 'onResume'>) {
  const pause = useOrderPause();
  return (
    <>
      <PauseStatus pause={pause} />
      {pause ? <Banner pause={pause} onResume={onResume} /> : null}
    </>
  );
}

/** Announces a pause. In the page before its first words, or screen readers do not announce them. */
const PauseStatus = ({ pause }: { pause: ReturnType<typeof useOrderPause> }) => (
  <p role="status" className="sr-only">
    {pause?.sentence}
  </p>
);

interface BannerProps {
  pause: NonNullable<ReturnType<typeof useOrderPause>>;
  banner?: RefObject<HTMLElement | null>;
  onResume(): void;
}

function Banner({ pause, banner, onResume }: BannerProps) {
  const { tables } = useMember().staff;
  const may = useMay();
  const now = useNow();
  const resume = useSave({
    write: async () => dataOf(await tables.rpc('resume_orders')),
    success: 'The shop takes orders again',
    failure: 'Failed to resume orders',
    refresh: ['settings'],
    onSuccess: onResume,
  });
  const { sentence, until, by } = pause;
  const left = until === null ? null : Math.max(1, Math.round((Date.parse(until) - now) / 60_000));
  return (
    <section
      ref={banner}
      tabIndex={-1}
      aria-label="Orders are paused"
      className="flex flex-wrap items-center gap-x-4 gap-y-2 rounded-md border border-ember-300 bg-ember-100 px-4 py-2.5 text-ink"
    >
      <Icon name="pause" className="size-5 shrink-0 text-ember-800 max-sm:hidden" />
      <div className="min-w-0 grow basis-64">
        <p className="font-bold wrap-anywhere">{sentence}</p>
        <p className="text-sm text-ink-soft">
          {left === null ? 'Until you resume' : `${formatMinutes(left)} left`}
          {' · '}
          <span title={formatDateTime(by.changed_at)}>
            {by.changed_by_email ? shorten(knownNameOf(by.changed_by_email)) : 'The shop itself'},{' '}
            {formatClock(by.changed_at, now)}
          </span>
        </p>
      </div>
      {may('orders') ? (
        <Button tone="dusk" isBusy={resume.isPending} onClick={() => resume.mutate()} className="max-sm:grow">
          Resume now
        </Button>
      ) : null}
    </section>
  );
}
