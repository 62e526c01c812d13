// Code of a screen that most visits do not need, such as its dialogs: loaded when it is needed.
import { useEffect, useRef, useState } from 'react';
import { showToast } from '../../ui/toasts/toasts.tsx';

/**
 * @param load imports the module. Must be stable
 * @param isNeeded whether to load it. After a failure it is loaded again when this becomes true again
 * @param onFailure called after the failure was shown
 * @returns the module; null until it has loaded
 */
export function usePart<Module>(
  load: () => Promise<Module>,
  isNeeded: boolean,
  onFailure?: () => void,
): Module | null {
  const [part, setPart] = useState<Module | null>(null);
  const failed = useRef(onFailure);
  useEffect(() => {
    failed.current = onFailure;
  });
  useEffect(() => {
    if (!isNeeded || part) return;
    let isGone = false;
    load().then(
      (loaded) => isGone || setPart(loaded),
      (error) => {
        console.warn('A part of the screen could not be loaded', error);
        if (isGone) return;
        showToast({
          kind: 'error',
          title: 'Not opened',
          text: 'Please check the connection and try again.',
        });
        failed.current?.();
      },
    );
    return () => {
      isGone = true;
    };
  }, [load, isNeeded, part]);
  return part;
}
