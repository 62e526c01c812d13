// Loads the code of a dialog on request. Each such dialog also exists as a page, to which a form leads.
import { type RefObject, useCallback, useRef, useState } from 'react';
import { withTimeout } from '../../../domain/timeout.ts';

/** Maximum time in ms that a tap waits for the code; the same as for a tap before hydration. */
const timeoutMs = 10_000;

export interface DialogCode {
  /** URL of the page that replaces the dialog. */
  form: RefObject<HTMLFormElement | null>;
  isLoadingCode: boolean;
  /** The last request failed because the device was offline. */
  isConnectionLost: boolean;
  /**
   * @param isAsked whether the customer wants the dialog now: only then a failure opens the page
   * @returns the loaded code, if any
   */
  fetchCode(isAsked?: boolean): Promise<boolean>;
}

/** @param load must be stable */
export function useDialogCode(load: () => Promise<unknown>): DialogCode {
  const form = useRef<HTMLFormElement>(null);
  const [isLoadingCode, setLoadingCode] = useState(false);
  const [isConnectionLost, setConnectionLost] = useState(false);
  const fetchCode = useCallback(
    async (isAsked = true) => {
      setLoadingCode(true);
      try {
        await withTimeout(load(), timeoutMs);
        setConnectionLost(false);
        return true;
      } catch {
        // After a new build the code may no longer exist: opens the page instead. Offline neither is available.
        if (!navigator.onLine) setConnectionLost(true);
        else if (isAsked) form.current?.submit();
        return false;
      } finally {
        setLoadingCode(false);
      }
    },
    [load],
  );
  return { form, isLoadingCode, isConnectionLost, fetchCode };
}
