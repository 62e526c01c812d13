// Brings what makes the shop readable offline, late: a first visit pays nothing for it before it is done loading.
import { type ComponentType, useEffect, useRef, useState } from 'react';
import type { OfflineReadingProps } from './offline-reading.tsx';

/** Who stays this long after everything has loaded is likely to come again. */
const patience = 15_000;

/** Some browsers within other apps have none, and say so only when one asks. */
function serviceWorkers(): ServiceWorkerContainer | null {
  try {
    return navigator.serviceWorker ?? null;
  } catch {
    return null;
  }
}

/**
 * @param pathname of the page that is shown
 * @returns the part of the frame that keeps pages and tells of being offline, once it is there
 */
export function useOfflineReading(pathname: string): ComponentType<OfflineReadingProps> | null {
  const [Reading, setReading] = useState<ComponentType<OfflineReadingProps> | null>(null);
  const begin = useRef(() => {});
  const first = useRef(pathname);

  useEffect(() => {
    const workers = serviceWorkers();
    if (!import.meta.env.PROD || !workers) return;
    let isGone = false;
    begin.current = () => {
      import('./offline-reading.tsx').then(
        ({ OfflineReading }) => isGone || setReading(() => OfflineReading),
        // Without it the shop works as it always does.
        () => {},
      );
    };
    const start = () => begin.current();
    let timer = 0;
    const wait = () => {
      // Once it is installed, the page may be an old one, which has to be said at once.
      timer = window.setTimeout(start, workers.controller ? 0 : patience);
    };
    window.addEventListener('offline', start);
    if (document.readyState === 'complete') wait();
    else window.addEventListener('load', wait, { once: true });
    return () => {
      isGone = true;
      window.clearTimeout(timer);
      window.removeEventListener('offline', start);
      window.removeEventListener('load', wait);
    };
  }, []);

  // Who goes on to a second page has its first one behind them.
  useEffect(() => {
    if (pathname !== first.current) begin.current();
  }, [pathname]);

  return Reading;
}
