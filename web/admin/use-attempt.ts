// One user action: whether it is running, and why it failed.
import { useCallback, useRef, useState } from 'react';
import { describeAuthProblem } from '../lib/auth-error-texts.ts';

/** @param fallback message for errors without a message for users */
export function useAttempt(fallback: string) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const isRunning = useRef(false);

  /** Runs the action unless one is running. Returns true on success. The action returns or throws its error. */
  const attempt = useCallback(
    async (work: () => Promise<Error | null | undefined>): Promise<boolean> => {
      if (isRunning.current) return false;
      isRunning.current = true;
      setBusy(true);
      setProblem(null);
      try {
        const error = await work();
        if (error) setProblem(describeAuthProblem(error, fallback));
        return !error;
      } catch (thrown) {
        console.warn(fallback, thrown);
        setProblem(describeAuthProblem(thrown, fallback));
        return false;
      } finally {
        isRunning.current = false;
        setBusy(false);
      }
    },
    [fallback],
  );
  return { isBusy, problem, attempt };
}
