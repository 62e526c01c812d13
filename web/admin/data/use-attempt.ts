// One user action: whether it is running, and why it failed.
import { useCallback, useState } from 'react';
import { describeAuthProblem } from '../../lib/auth-error-texts.ts';
import { useAction } from '../../ui/use-action.ts';

/** @param fallback message for errors without a message for users */
export function useAttempt(fallback: string) {
  const { isRunning, run } = useAction();
  const [problem, setProblem] = useState<string | null>(null);

  /** Runs the action unless one is running. Returns true on success. The action returns or throws its error. */
  const attempt = useCallback(
    async (work: () => Promise<Error | null | undefined>): Promise<boolean> => {
      let isDone = false;
      await run(
        async () => {
          setProblem(null);
          const error = await work();
          if (error) setProblem(describeAuthProblem(error, fallback));
          isDone = !error;
        },
        (thrown) => {
          console.warn(fallback, thrown);
          setProblem(describeAuthProblem(thrown, fallback));
        },
      );
      return isDone;
    },
    [fallback, run],
  );
  return { isBusy: isRunning, problem, attempt };
}
