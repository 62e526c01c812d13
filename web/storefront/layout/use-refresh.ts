// Reloads a page's data in the background.
import { useCallback } from 'react';
import { useRevalidator } from 'react-router';

/**
 * Reloads it if the shop is reachable: an error would replace the page, including an open dialog. With `mayBeGone` also where the page no
 * longer exists.
 * @returns whether it was reloaded
 */
export function useRefresh(): (mayBeGone?: boolean) => Promise<boolean> {
  const { revalidate } = useRevalidator();
  return useCallback(
    async (mayBeGone = false) => {
      const isReached = await fetch(window.location.href, {
        method: 'HEAD',
        signal: AbortSignal.timeout(10_000),
      }).then(
        ({ ok, status, redirected }) => (ok || (mayBeGone && status === 404)) && !redirected,
        () => false,
      );
      if (isReached) await revalidate();
      return isReached;
    },
    [revalidate],
  );
}
