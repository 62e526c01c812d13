// The slim line above the queue in counter mode, in place of the panel's header and menu.
import { formatCount } from '../../../../domain/count.ts';
import { dueAt, minutesLeft } from '../../../../domain/deliveries/delivery-promise.ts';
import { workStep } from '../../../../domain/deliveries/delivery-status.ts';
import { Button } from '../../../ui/button.tsx';
import { useWorkQueue } from '../../deliveries/delivery-queries.ts';
import { LiveDot } from '../../layout/live-dot.tsx';
import { useLiveState } from '../../live/live-state.ts';
import { NoticesButton } from '../../notices/notices-button.tsx';
import { useNow } from '../../ui/time/age.tsx';
import { formatClock } from '../../ui/time/dates.ts';
import { enterFullscreen, useCounterMode } from './use-counter-mode.ts';
import { useWakeLock } from './use-wake-lock.ts';

export function CounterLine() {
  const live = useLiveState();
  const { leave, isFullscreen, canBeFullscreen } = useCounterMode();
  const wakeLock = useWakeLock();
  const now = useNow();
  const open = useWorkQueue().data?.filter((delivery) => workStep(delivery.order, delivery) !== null);
  const late =
    open?.filter(({ order, created_at }) => minutesLeft(dueAt(order, created_at), now) < 0).length ?? 0;
  return (
    <header className="flex min-h-14 shrink-0 flex-wrap items-center gap-x-4 border-b border-line bg-card px-4 py-1.5">
      <time className="font-display text-2xl font-bold tabular-nums">
        {formatClock(new Date(now).toISOString(), now)}
      </time>
      <LiveDot state={live} isSpelledOut />
      {/* Offers to undo a change lie over these words. */}
      <div
        data-undo-place
        className="flex min-h-11 min-w-0 flex-1 flex-wrap items-center gap-x-4 leading-tight max-sm:order-last max-sm:basis-full"
      >
        {open ? (
          <p className="text-lg font-semibold">
            {open.length === 1 ? '1 open order' : `${formatCount(open.length)} open orders`}
            {late > 0 ? <span className="text-danger">, {formatCount(late)} late</span> : null}
          </p>
        ) : null}
        {wakeLock === 'unavailable' ? (
          <p className="text-sm text-ink-soft" role="status">
            This device may turn its screen off: the browser can't keep it on.
          </p>
        ) : null}
      </div>
      <NoticesButton />
      {canBeFullscreen && !isFullscreen ? (
        <Button tone="quiet" onClick={enterFullscreen} className="shrink-0 whitespace-nowrap max-sm:hidden">
          Full screen
        </Button>
      ) : null}
      <Button
        tone="quiet"
        onClick={leave}
        aria-keyshortcuts="Escape"
        className="shrink-0 whitespace-nowrap max-sm:ml-auto"
      >
        Leave
      </Button>
    </header>
  );
}
