// Toasts. The library is loaded with the first one, or just before.
import type { Toast } from './toaster.tsx';

/** Loads the toaster, so that the first toast appears at once and screen readers announce it. */
export function prepareToasts(): Promise<(toast: Toast) => void> {
  return import('./toaster.tsx').then(({ raiseToast }) => raiseToast);
}

/** Dismisses the toast of a topic. */
export async function dismissToast(topic: string): Promise<void> {
  const { endToast } = await import('./toaster.tsx');
  endToast(topic);
}

/** Dismisses every toast, when a screen is cleared. */
export async function dismissAllToasts(): Promise<void> {
  const { endAllToasts } = await import('./toaster.tsx');
  endAllToasts();
}

/** Shows a toast for 4 seconds, at most three at a time (docs/product.md#numbers). */
export function showToast(toast: Toast): void {
  void tryToShowToast(toast);
}

/**
 * As `showToast`.
 * @returns whether it was shown: a page of an older build may not find the module
 */
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
