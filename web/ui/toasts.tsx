// Toasts. Their library is loaded with the first one, or just before.
import type { Toast } from './toaster.tsx';

/** Loads the toaster, so that the first toast appears at once and screen readers announce it. */
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

/** Shows a message for 4 seconds, at most three at a time (specification §9). */
export function showToast(toast: Toast): void {
  void tryToShowToast(toast);
}

/** As `showToast`. @returns whether it was shown: a page of an older version may not find the code that shows it */
export async function tryToShowToast(toast: Toast): Promise<boolean> {
  try {
    const raise = await prepareToasts();
    raise(toast);
    return true;
  } catch (error) {
    console.warn('A message could not be shown', toast, error);
    return false;
  }
}
