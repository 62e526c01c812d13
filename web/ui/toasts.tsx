// Short messages that come and go. The library behind them is loaded with the first one, or just before.

export interface Toast {
  title: string;
  text: string;
  kind?: 'success' | 'error' | 'info';
  /** Something to do about it. */
  action?: { label: string; run(): void };
  /** A newer message on the same topic takes the older one's place. */
  topic?: string;
}

/** Loads what shows toasts, so that the first one comes at once and is heard by screen readers. */
export function prepareToasts(): Promise<(toast: Toast) => void> {
  return import('./toaster.tsx').then(({ raiseToast }) => raiseToast);
}

/** Shows a message for 4 seconds, at most three at a time (specification §9). */
export function showToast(toast: Toast): void {
  prepareToasts()
    .then((raise) => raise(toast))
    .catch((error: unknown) => console.warn('A message could not be shown', toast, error));
}
