// Counts what waits in the title of the tab and on the icon of the installed app.
import { useEffect } from 'react';
import { useWork } from '../deliveries/rider-queries.ts';
import { useMay } from '../layout/roles/use-member.tsx';
import type { Waiting } from '../live/use-waiting.ts';
import { useOrdersNeedingReview } from '../orders/order-queries.ts';
import { useDeviceSettings } from './device-settings.ts';

/** The title with a number before it, instead of an earlier one. Without a number for 0. */
export const titleWithCount = (title: string, count: number): string =>
  `${count > 0 ? `(${count}) ` : ''}${title.replace(/^\(\d+\) /, '')}`;

/** Counts paid orders to prepare (also those asked to be cancelled), failed deliveries, orders to agree on, and what else needs a decision or an answer. */
export function useCounts({ refunds, money, inquiries }: Waiting, isActive: boolean): void {
  const may = useMay();
  const work = useWork(isActive);
  const reviews = useOrdersNeedingReview(isActive)?.count ?? 0;
  const count =
    (work?.to_prepare ?? 0) +
    (work?.failed ?? 0) +
    (may('orders') ? (work?.to_agree ?? 0) : 0) +
    reviews +
    refunds +
    money +
    inquiries;
  const { countsInTitle, countsOnIcon } = useDeviceSettings();

  const inTitle = isActive && countsInTitle ? count : 0;
  useEffect(() => {
    const write = () => {
      const title = titleWithCount(document.title, inTitle);
      if (document.title !== title) document.title = title;
    };
    write();
    // Each screen writes its own title.
    const observer = new MutationObserver(write);
    observer.observe(document.head, { childList: true, subtree: true, characterData: true });
    return () => {
      observer.disconnect();
      document.title = titleWithCount(document.title, 0);
    };
  }, [inTitle]);

  const onIcon = isActive && countsOnIcon ? count : 0;
  useEffect(() => {
    // Only browsers with installed apps have it.
    const badge = navigator as Partial<Pick<Navigator, 'setAppBadge' | 'clearAppBadge'>>;
    void badge.setAppBadge?.(onIcon)?.catch(() => {});
    return () => void badge.clearAppBadge?.()?.catch(() => {});
  }, [onIcon]);
}
