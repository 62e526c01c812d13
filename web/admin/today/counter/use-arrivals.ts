// New orders of the queue, and whether they are in view.
import { useCallback, useEffect, useState } from 'react';
import { markSeen, noArrivals, type QueuedOrder, updateArrivals } from './arrivals.ts';

/** How long a new order stands out once it is in view, in ms. */
const noticeMs = 8000;

/**
 * @param queue undefined before it is loaded
 * @returns the ids of the new orders, and of those among them that are scrolled out of view
 */
export function useArrivals(queue: readonly QueuedOrder[] | undefined): {
  fresh: readonly string[];
  hidden: readonly string[];
} {
  const [arrivals, setArrivals] = useState(noArrivals);
  const next = updateArrivals(arrivals, queue);
  // Derived from the queue while it is drawn, so that a card is never shown without its mark first.
  if (next !== arrivals) setArrivals(next);
  const { fresh } = next;
  const [hidden, setHidden] = useState<readonly string[]>([]);
  const note = useCallback(
    (id: string, isHidden: boolean) =>
      setHidden((before) =>
        before.includes(id) === isHidden
          ? before
          : isHidden
            ? [...before, id]
            : before.filter((one) => one !== id),
      ),
    [],
  );
  const key = fresh.join();
  useEffect(() => {
    const timers = new Map<string, ReturnType<typeof setTimeout>>();
    const observer = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          const id = (target as HTMLElement).dataset.delivery ?? '';
          note(id, !isIntersecting);
          clearTimeout(timers.get(id));
          if (isIntersecting)
            timers.set(
              id,
              setTimeout(() => setArrivals((before) => markSeen(before, id)), noticeMs),
            );
        }
      },
      // Half of the card, so that its drink can be read.
      { threshold: 0.5 },
    );
    for (const id of key.split(',').filter(Boolean)) {
      const card = document.querySelector(`[data-delivery="${CSS.escape(id)}"]`);
      if (card) observer.observe(card);
    }
    return () => {
      observer.disconnect();
      for (const timer of timers.values()) clearTimeout(timer);
    };
  }, [key, note]);
  return { fresh, hidden: hidden.filter((id) => fresh.includes(id)) };
}
