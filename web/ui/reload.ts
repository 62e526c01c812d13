// Reloads of the document.
import { useEffect, useLayoutEffect, useRef } from 'react';
import { useNavigation } from 'react-router';

let isWanted = false;

/** Instead of `location.reload()`, which `useReloadTarget` redirects. */
export function reload(): void {
  isWanted = true;
  window.location.reload();
}

/**
 * The router reloads the current page when the code of another one is missing, for example after a new build. If a visitor asked for that
 * page, loads it instead; if its code was only prefetched, does nothing. Browsers without the Navigation API reload.
 */
export function useReloadTarget(): void {
  const pending = useNavigation();
  const latest = useRef(pending);
  useLayoutEffect(() => {
    latest.current = pending;
  });
  useEffect(() => {
    const redirect = (event: NavigateEvent) => {
      if (event.navigationType !== 'reload' || event.userInitiated || isWanted) return;
      const { location, formMethod } = latest.current;
      if (location && formMethod && formMethod !== 'GET') return;
      event.preventDefault();
      if (location) window.location.assign(location.pathname + location.search + location.hash);
    };
    window.navigation?.addEventListener('navigate', redirect);
    return () => window.navigation?.removeEventListener('navigate', redirect);
  }, []);
}
