// Short messages that come and go. The library behind them is loaded with the first one, or just before.
import type { ReactNode } from 'react';

export interface Toast {
  title: string;
  text: string;
  kind?: 'success' | 'error' | 'info';
  /** Something to do about it. */
  action?: { label: string; run(): void };
  /** A newer message on the same topic takes the older one's place. */
  topic?: string;
  /** Below the text. The message then stays until `dismissToast` is called for its topic or its reader dismisses it. */
  content?: ReactNode;
  /** Called when a message with content ends. */
  onDismiss?(): void;
}

/** Loads what shows toasts, so that the first one comes at once and is heard by screen readers. */
export function prepareToasts(): Promise<(toast: Toast) => void> {
  return import('./toaster.tsx').then(({ raiseToast }) => raiseToast);
}

/** Ends a message on this topic, if one is shown. */
export async function dismissToast(topic: string): Promise<void> {
  const { endToast } = await import('./toaster.tsx');
  endToast(topic);
}

/** Ends every message, for a screen that is cleared. */
export async function dismissAllToasts(): Promise<void> {
  const { endAllToasts } = await import('./toaster.tsx');
  endAllToasts();
}

/**
 * Shows a message for 4 seconds, at most three at a time (specification §9).
 * @returns whether it could: what shows it may be gone with the version that the page is of
 */
export async function showToast(toast: Toast): Promise<boolean> {
  try {
    const raise = await prepareToasts();
    raise(toast);
    return true;
  } catch (error) {
    console.warn('A message could not be shown', toast, error);
    return false;
  }
}
