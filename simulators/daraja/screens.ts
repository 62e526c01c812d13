// Which phone pages are open, by the time of their last request.

export type Screens = {
  /** A page with this phone has just sent a request. */
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
