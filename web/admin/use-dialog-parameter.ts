// A dialog over a list that is open while the address names a row: reloaded, shared and left by the way back.
import { useCallback } from 'react';
import { useLocation, useNavigate, useSearchParams } from 'react-router';

export interface DialogParameter {
  /** The row the dialog is open for, or null. */
  id: string | null;
  close(): void;
}

/** @param name of the search parameter, such as 'view' */
export function useDialogParameter(name: string): DialogParameter {
  const [parameters, setParameters] = useSearchParams();
  const { state } = useLocation();
  const navigate = useNavigate();
  const close = useCallback(() => {
    // The way one came, where there is one: the list stands in the history once, not twice.
    if ((state as { isFromList?: boolean } | null)?.isFromList) {
      void navigate(-1);
      return;
    }
    setParameters(
      (before) => {
        const next = new URLSearchParams(before);
        next.delete(name);
        return next;
      },
      { replace: true, preventScrollReset: true },
    );
  }, [name, state, navigate, setParameters]);
  return { id: parameters.get(name) || null, close };
}

/**
 * Opens such a dialog over the list as it is.
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
      { state: { isFromList: true }, preventScrollReset: true },
    );
}
