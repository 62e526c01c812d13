// Whether the device has a network, as reported by the browser.
import { useSyncExternalStore } from 'react';

/** True during server rendering and hydration. */
export const useIsOnline = (): boolean =>
  useSyncExternalStore(
    onNetworkChange,
    () => navigator.onLine,
    () => true,
  );

function onNetworkChange(onChange: () => void): () => void {
  window.addEventListener('online', onChange);
  window.addEventListener('offline', onChange);
  return () => {
    window.removeEventListener('online', onChange);
    window.removeEventListener('offline', onChange);
  };
}
