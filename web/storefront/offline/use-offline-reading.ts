// Loads the offline module late, so that it does not slow down a first visit.
import { type ComponentType, useEffect, useRef, useState } from 'react';
import { serviceWorkers } from '../../lib/browser/browser-storage.ts';
import { ordersKey } from '../../lib/orders/stored-orders.ts';
import type { OfflineReadingProps } from './offline-reading.tsx';

/** Visitors who stay this long after loading are likely to return. */
const startDelayMs = 15_000;

/**
 * @param pathname of the page that is shown
 * @returns the component that caches pages and shows the offline notice, once loaded
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
        // Offline reading is optional: a failed load is ignored.
        () => {},
      );
    };
    const start = () => begin.current();
    let timer = 0;
    const wait = () => {
      // With an active service worker the page may be a cached one, which must be shown at once.
      timer = window.setTimeout(start, workers.controller ? 0 : startDelayMs);
    };
    window.addEventListener('offline', start);
    // Who has ordered returns to read about it.
    window.addEventListener(ordersKey, start);
    if (document.readyState === 'complete') wait();
    else window.addEventListener('load', wait, { once: true });
    return () => {
      isGone = true;
      window.clearTimeout(timer);
      window.removeEventListener('offline', start);
      window.removeEventListener(ordersKey, start);
      window.removeEventListener('load', wait);
    };
  }, []);

  // On a second page the first one has loaded.
  useEffect(() => {
    if (pathname !== first.current) begin.current();
  }, [pathname]);

  return Reading;
}
