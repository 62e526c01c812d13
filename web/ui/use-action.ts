// One action of a form at a time: while it runs, the form is locked. It ends however the action ends, so that no form stays locked.
import { useCallback, useRef, useState } from 'react';

export function useAction() {
  const [isRunning, setRunning] = useState(false);
  // Two clicks can happen before the form is rendered as locked.
  const running = useRef(false);

  /**
   * Runs an action unless one is running.
   * @param onError shows what the action threw
   */
  const run = useCallback(
    async (action: () => Promise<void>, onError: (error: unknown) => void): Promise<void> => {
      if (running.current) return;
      running.current = true;
      setRunning(true);
      try {
        await action();
      } catch (error) {
        onError(error);
      } finally {
        running.current = false;
        setRunning(false);
      }
    },
    [],
  );
  return { isRunning, run };
}
