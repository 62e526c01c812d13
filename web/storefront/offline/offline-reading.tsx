// Caches visited pages for offline reading, and shows when the current page is outdated.
import { useEffect, useState } from 'react';
import { serviceWorkers } from '../../lib/browser/browser-storage.ts';
import { formatOrderDate, formatOrderTime } from '../../lib/orders/order-date.ts';
import { onStoredOrdersChange, rememberedOrders } from '../../lib/orders/remembered-orders.ts';
import { reload } from '../../ui/reload.ts';
import { useRefresh } from '../layout/use-refresh.ts';

export interface OfflineReadingProps {
  pathname: string;
}

const catalogue = ['/', '/shop'];

/** The active service worker of this shop; null if none can be registered. */
async function getServiceWorker(): Promise<ServiceWorker | null> {
  try {
    const workers = serviceWorkers();
    await workers?.register('/sw.js', { updateViaCache: 'none' });
    return (await workers?.ready)?.active ?? null;
  } catch {
    return null;
  }
}

/** Time at which the shown page was cached; null if it is current. */
function getCachedAt(): Promise<string | null> {
  const controller = serviceWorkers()?.controller;
  if (!controller) return Promise.resolve(null);
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = ({ data }) => resolve(typeof data === 'string' ? data : null);
    controller.postMessage({ type: 'since' }, [channel.port2]);
  });
}

const savesData = (): boolean =>
  (navigator as { connection?: { saveData?: boolean } }).connection?.saveData === true;

let hasCachedCatalogue = false;

export function OfflineReading({ pathname }: OfflineReadingProps) {
  const [isOffline, setOffline] = useState(() => !navigator.onLine);
  const [since, setSince] = useState<string | null>(null);
  const refresh = useRefresh();

  useEffect(() => {
    void getCachedAt().then((cachedAt) => cachedAt && setSince(cachedAt));
    const goOffline = () => {
      setSince((before) => before ?? new Date().toISOString());
      setOffline(true);
    };
    const goOnline = async () => {
      setOffline(false);
      // The page is refreshed before the notice disappears.
      if (await refresh()) setSince(null);
    };
    if (!navigator.onLine) goOffline();
    window.addEventListener('offline', goOffline);
    window.addEventListener('online', goOnline);
    return () => {
      window.removeEventListener('offline', goOffline);
      window.removeEventListener('online', goOnline);
    };
  }, [refresh]);

  useEffect(() => {
    if (!navigator.onLine) return;
    void getServiceWorker().then((worker) => {
      if (!worker) return;
      if (hasCachedCatalogue) {
        if (!savesData()) worker.postMessage({ type: 'keep', pages: [pathname] });
        return;
      }
      hasCachedCatalogue = true;
      // This page's files were fetched before the cache was active: most are in the HTTP cache.
      const files = performance
        .getEntriesByType('resource')
        .map(({ name }) => new URL(name))
        .filter(({ origin }) => origin === window.location.origin)
        .map(({ pathname: path, search }) => path + search);
      const pages = savesData() ? [pathname] : [...new Set([pathname, ...catalogue])];
      worker.postMessage({ type: 'keep', pages, files, withPictures: !savesData() });
    });
  }, [pathname]);

  // The page of the newest order, again after each change, also when no other page is opened.
  useEffect(() => {
    const keepOrder = () => {
      const [newest] = rememberedOrders();
      if (!newest || !navigator.onLine) return;
      const pages = [`/track-order/${newest.trackingNumber}`];
      void getServiceWorker().then((worker) => worker?.postMessage({ type: 'keep', pages }));
    };
    keepOrder();
    return onStoredOrdersChange(keepOrder);
  }, []);

  if (!isOffline && !since) return null;
  return (
    <div role="status" data-offline className="sticky top-0 z-40 bg-ember-300 text-ink shadow-md">
      <p className="page flex flex-wrap items-center justify-between gap-x-6 py-2 text-sm font-semibold xl:min-h-12 xl:py-0.5">
        <span>
          {isOffline ? 'You are offline.' : 'The shop cannot be reached right now.'}{' '}
          {since ? `You are reading this page as of ${formatCachedAt(since)}.` : null} Orders can be placed
          when you are back.
        </span>
        {isOffline ? null : (
          <button
            type="button"
            onClick={reload}
            className="min-h-11 rounded-md px-2 underline underline-offset-2"
          >
            Try again
          </button>
        )}
      </p>
    </div>
  );
}

/** The time of day alone if it was today. */
function formatCachedAt(when: string): string {
  const day = (date: string) => formatOrderDate(date).replace(/ at .*/, '');
  return day(when) === day(new Date().toISOString()) ? formatOrderTime(when) : formatOrderDate(when);
}
