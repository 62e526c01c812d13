// Reads what a page shows anew, beside what somebody is doing on it.
import { useCallback } from 'react';
import { useRevalidator } from 'react-router';

/**
 * Reads it anew if the shop can be reached: an answer that is none would take the page's place, and an open dialog with it.
 * @returns whether it did
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
