// Knows which phone pages are open, by when each of them last asked for its prompts.

export type Screens = {
  /** A page showing this phone has just asked. */
  seen(phone: string): void;
  isOpen(phone: string): boolean;
  reset(): void;
};

export function watchScreens(openForMs: number): Screens {
  // A page polls in real time, whatever the simulated clock does.
  const lastSeen = new Map<string, number>();
  return {
    seen(phone) {
      lastSeen.set(phone, performance.now());
    },
    isOpen(phone) {
      const seenAt = lastSeen.get(phone);
      return seenAt !== undefined && performance.now() - seenAt <= openForMs;
    },
    reset() {
      lastSeen.clear();
    },
  };
}
