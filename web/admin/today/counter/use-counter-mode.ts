// Counter mode of Today: the queue alone, on a tablet at the counter. It is on while the URL has `?view=counter`.
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { isDialogOpen } from '../../dialogs/is-dialog-open.ts';
import { useDialogOpener, useDialogParameter } from '../../dialogs/use-dialog-parameter.ts';

const onFullscreen = (listener: () => void) => {
  document.addEventListener('fullscreenchange', listener);
  return () => document.removeEventListener('fullscreenchange', listener);
};
const isFullscreen = () => Boolean(document.fullscreenElement);

/** The whole screen for the page, where the browser allows it: iPhones do not, and a page that was just loaded may not. */
export function enterFullscreen(): void {
  if (document.fullscreenEnabled) void document.documentElement.requestFullscreen().catch(() => {});
}

const leaveFullscreen = () => {
  if (isFullscreen()) void document.exitFullscreen().catch(() => {});
};

/** Opens counter mode on the whole screen. Must be called by a press. */
export function useCounterOpener(): () => void {
  const open = useDialogOpener('view');
  return () => {
    enterFullscreen();
    open('counter');
  };
}

export interface CounterMode {
  leave(): void;
  isFullscreen: boolean;
  /** Whether the browser can show the page on the whole screen. */
  canBeFullscreen: boolean;
}

/** For the screen in counter mode. Escape leaves it, also the one with which the browser ends the whole screen. */
export function useCounterMode(): CounterMode {
  const { close } = useDialogParameter('view');
  const isFull = useSyncExternalStore(onFullscreen, isFullscreen);
  const [canBeFullscreen] = useState(() => document.fullscreenEnabled === true);
  const isLeaving = useRef(false);
  const leave = useCallback(() => {
    // The end of the whole screen, which follows, must not go back once more.
    if (isLeaving.current) return;
    isLeaving.current = true;
    leaveFullscreen();
    close();
  }, [close]);
  const latestLeave = useRef(leave);
  useEffect(() => {
    latestLeave.current = leave;
  });
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key === 'Escape' && !event.defaultPrevented && !isDialogOpen()) latestLeave.current();
    };
    window.addEventListener('keydown', onKeyDown);
    return () => {
      window.removeEventListener('keydown', onKeyDown);
      leaveFullscreen();
    };
  }, []);
  const wasFull = useRef(isFull);
  useEffect(() => {
    const hasEnded = wasFull.current && !isFull;
    wasFull.current = isFull;
    // The browser handles Escape itself then. Another app in front, or an open dialog, is no wish to leave.
    if (hasEnded && document.visibilityState === 'visible' && !isDialogOpen()) latestLeave.current();
  }, [isFull]);
  return { leave, isFullscreen: isFull, canBeFullscreen };
}
