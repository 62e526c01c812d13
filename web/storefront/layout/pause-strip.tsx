// Above the header of pages where customers order: why the shop takes no orders, and until when. It follows the pause.
import { useEffect, useState } from 'react';
import type { OrderPause } from '../../../domain/orders/order-pause.ts';
import { Icon } from '../../ui/icons.tsx';
import { usePause } from './use-pause.ts';
import { useRefresh } from './use-refresh.ts';

const pollIntervalMs = 20_000;

/** Whether customers order on the page of this path. */
const isForOrders = (pathname: string): boolean => /^\/(shop|brands|flavors|$)/.test(pathname);

export function PauseStrip({ pathname }: { pathname: string }) {
  const pause = usePause();
  return pause && isForOrders(pathname) ? <Strip key={pause.sentence} {...pause} /> : null;
}

function Strip({ sentence, until }: OrderPause) {
  const refresh = useRefresh();
  // A page that was stored for reading offline may be older than the end of its pause.
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const follow = () => {
      if (document.visibilityState !== 'visible') return;
      if (navigator.onLine) void refresh();
      else setOver(until !== null && Date.parse(until) <= Date.now());
    };
    if (!navigator.onLine) follow();
    const timer = setInterval(follow, pollIntervalMs);
    document.addEventListener('visibilitychange', follow);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', follow);
    };
  }, [refresh, until]);
  if (isOver) return null;
  return (
    <aside aria-label="Orders are paused" className="border-b border-ember-200 bg-ember-50 text-ink">
      <p className="page flex items-center justify-center gap-2 py-2 text-sm font-semibold">
        <Icon name="clock" className="size-4.5 shrink-0 text-ember-700" />
        <span className="min-w-0 wrap-anywhere">{sentence}</span>
      </p>
    </aside>
  );
}
