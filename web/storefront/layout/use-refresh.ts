// Reloads a page's data in the background.
import { useCallback } from 'react';
import { useRevalidator } from 'react-router';

/**
 * Reloads it if the shop is reachable: an error would replace the page, including an open dialog.
 * @returns whether it was reloaded
 */
export function useRefresh(): () => Promise<boolean> {
  const { revalidate } = useRevalidator();
  return useCallback(async () => {
    const isReached = await fetch(window.location.href, {
      method: 'HEAD',
      signal: AbortSignal.timeout(10_000),
    }).then(
      ({ ok, redirected }) => ok && !redirected,
      () => false,
    );
    if (isReached) await revalidate();
    return isReached;
  }, [revalidate]);
}
