// Fetches the code of a dialog when somebody asks for it. What it does is also a page of its own, to which a form leads.
import { type RefObject, useCallback, useRef, useState } from 'react';
import { withTimeout } from '../../lib/timeout.ts';

/** For how long a tap waits for the code, in ms: as long as one that came before the page could answer. */
const timeoutMs = 10_000;

export interface DialogCode {
  /** Of the form that leads to the page instead. */
  form: RefObject<HTMLFormElement | null>;
  isComing: boolean;
  /** The last request failed offline. */
  isCutOff: boolean;
  /**
   * @param isAsked whether the customer wants it now: only then a failure leads to the page
   * @returns whether it is there
   */
  fetchCode(isAsked?: boolean): Promise<boolean>;
}

/** @param load must be stable */
export function useDialogCode(load: () => Promise<unknown>): DialogCode {
  const form = useRef<HTMLFormElement>(null);
  const [isComing, setComing] = useState(false);
  const [isCutOff, setCutOff] = useState(false);
  const fetchCode = useCallback(
    async (isAsked = true) => {
      setComing(true);
      try {
        await withTimeout(load(), timeoutMs);
        setCutOff(false);
        return true;
      } catch {
        // A page that outlived its build has the page to go to; without a network there is neither.
        if (!navigator.onLine) setCutOff(true);
        else if (isAsked) form.current?.submit();
        return false;
      } finally {
        setComing(false);
      }
    },
    [load],
  );
  return { form, isComing, isCutOff, fetchCode };
}
