// The time by which cards change their place: it stands still while a member is about to press one of them.
import { useEffect, useRef, useState } from 'react';
import { isDialogOpen } from '../dialogs/is-dialog-open.ts';
import { useNow } from '../ui/time/age.tsx';

/** How long no one must have pointed, pressed or scrolled, in ms. */
const restMs = 3000;
const signsOfUse = ['pointerdown', 'pointermove', 'keydown', 'scroll'] as const;

/** Like `useNow`, but unchanged while the screen is in use or a question is open. */
export function useSettledNow(): number {
  const now = useNow();
  const [settled, settle] = useState(now);
  const lastUse = useRef(Number.NEGATIVE_INFINITY);
  useEffect(() => {
    const note = () => {
      lastUse.current = Date.now();
    };
    for (const event of signsOfUse) window.addEventListener(event, note, { capture: true, passive: true });
    return () => {
      for (const event of signsOfUse) window.removeEventListener(event, note, { capture: true });
    };
  }, []);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    const settleAtRest = () => {
      const wait = isDialogOpen() ? restMs : lastUse.current + restMs - Date.now();
      if (wait > 0) timer = setTimeout(settleAtRest, wait);
      else settle(now);
    };
    settleAtRest();
    return () => clearTimeout(timer);
  }, [now]);
  return settled;
}
