// One user action: whether it is running, and why it failed.
import { useCallback, useRef, useState } from 'react';
import { describeAuthProblem } from '../lib/auth-words.ts';

/** @param fallback shown for a failure that has no words of its own */
export function useAttempt(fallback: string) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const isUnderWay = useRef(false);

  /** Runs the action unless one is running. Returns true on success. The action returns or throws its error. */
  const attempt = useCallback(
    async (work: () => Promise<Error | null | undefined>): Promise<boolean> => {
      if (isUnderWay.current) return false;
      isUnderWay.current = true;
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
        isUnderWay.current = false;
        setBusy(false);
      }
    },
    [fallback],
  );
  return { isBusy, problem, attempt };
}
