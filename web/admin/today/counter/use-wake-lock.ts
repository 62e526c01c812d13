// Keeps the screen on while a component is mounted.
import { useEffect, useState } from 'react';

/** `unavailable`: the browser has no wake lock or refuses it, for example to save the battery. */
export type WakeLockState = 'asked' | 'held' | 'unavailable';

/** The browser releases the lock when the page is hidden, so it is requested again when the page is shown. */
export function useWakeLock(): WakeLockState {
  const [state, setState] = useState<WakeLockState>('asked');
  useEffect(() => {
    // Undefined in browsers without it, and on pages without HTTPS.
    const wakeLock = navigator.wakeLock as WakeLock | undefined;
    if (!wakeLock) {
      setState('unavailable');
      return;
    }
    let lock: WakeLockSentinel | null = null;
    let isAsking = false;
    let isStopped = false;
    const request = async () => {
      if (isAsking || document.visibilityState !== 'visible' || (lock && !lock.released)) return;
      isAsking = true;
      try {
        const granted = await wakeLock.request('screen');
        if (isStopped) {
          await granted.release();
          return;
        }
        lock = granted;
        setState('held');
        granted.addEventListener('release', () => {
          // With a hidden page it is requested again later; otherwise the system needs its battery.
          if (!isStopped) setState(document.visibilityState === 'visible' ? 'unavailable' : 'asked');
        });
      } catch {
        if (!isStopped) setState('unavailable');
      } finally {
        isAsking = false;
      }
    };
    const onVisible = () => void request();
    document.addEventListener('visibilitychange', onVisible);
    onVisible();
    return () => {
      isStopped = true;
      document.removeEventListener('visibilitychange', onVisible);
      void lock?.release().catch(() => {});
    };
  }, []);
  return state;
}
