// A dialog over a list that is open while the URL names a row: it can be reloaded, shared and closed with Back.
import { useCallback } from 'react';
import { useSearchParams } from 'react-router';
import { useLastValue } from '../ui/use-last-value.ts';
import { fromThisPage, useDialogUrlClose } from './use-dialog-url-close.ts';

export interface DialogParameter {
  /** The id of the row, or null. */
  id: string | null;
  /** The id of the row that is shown, also while the dialog closes. */
  shownId: string | null;
  close(): void;
}

/** @param name of the search parameter, such as 'view' */
export function useDialogParameter(name: string): DialogParameter {
  const [parameters, setParameters] = useSearchParams();
  const close = useDialogUrlClose(
    useCallback(
      () =>
        setParameters(
          (before) => {
            const next = new URLSearchParams(before);
            next.delete(name);
            return next;
          },
          { replace: true, preventScrollReset: true },
        ),
      [name, setParameters],
    ),
  );
  const id = parameters.get(name) || null;
  return { id, shownId: useLastValue(id), close };
}

/**
 * Opens such a dialog without changing the list.
 * @param name of the search parameter
 */
export function useDialogOpener(name: string): (id: string) => void {
  const [, setParameters] = useSearchParams();
  return (id) =>
    setParameters(
      (before) => {
        const next = new URLSearchParams(before);
        next.set(name, id);
        return next;
      },
      { state: fromThisPage, preventScrollReset: true },
    );
}
