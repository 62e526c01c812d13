// Heavy work a few at a time, and in turns: whoever brings much of it waits for himself, not everybody for him.

/** So much waits already that no more is taken. */
export class TooBusy extends Error {
  override readonly name = 'TooBusy';
}

export interface Turns {
  /**
   * Does the work when it is its turn.
   * @param who brings it; each is served in turn
   * @throws TooBusy when too much waits, of all or of this one; whatever the work throws
   */
  take<T>(who: string, work: () => Promise<T>): Promise<T>;
}

/**
 * Makes the turns.
 * @param atOnce pieces of work; where it is more than one, the last place is never for who has all the others
 */
export function createTurns(bounds: {
  atOnce: number;
  mostWaiting: number;
  mostWaitingOfOne: number;
}): Turns {
  const { atOnce, mostWaiting, mostWaitingOfOne } = bounds;
  const mostOfOne = Math.max(1, atOnce - 1);
  const running = new Map<string, number>();
  // Who waits, in the order of their turns.
  const waiting = new Map<string, (() => void)[]>();
  let busy = 0;
  let queued = 0;

  const mayStart = (who: string) => busy < atOnce && (running.get(who) ?? 0) < mostOfOne;
  const start = (who: string) => {
    busy += 1;
    running.set(who, (running.get(who) ?? 0) + 1);
  };
  const end = (who: string) => {
    busy -= 1;
    const left = (running.get(who) ?? 1) - 1;
    if (left > 0) running.set(who, left);
    else running.delete(who);
    for (const [next, queue] of [...waiting]) {
      if (!mayStart(next)) continue;
      const go = queue.shift();
      // To the end of the line, if there is more.
      waiting.delete(next);
      if (queue.length > 0) waiting.set(next, queue);
      if (!go) continue;
      queued -= 1;
      start(next);
      go();
    }
  };

  return {
    async take(who, work) {
      if (mayStart(who)) start(who);
      else {
        const queue = waiting.get(who) ?? [];
        if (queued >= mostWaiting || queue.length >= mostWaitingOfOne) throw new TooBusy();
        waiting.set(who, queue);
        queued += 1;
        await new Promise<void>((go) => queue.push(go));
      }
      try {
        return await work();
      } finally {
        end(who);
      }
    },
  };
}
