// Tracks which phone pages are open by the time of their last request.

export type Screens = {
  /** Records a request of this phone's page. */
  seen(phone: string): void;
  isOpen(phone: string): boolean;
  reset(): void;
};

export function watchScreens(openForMs: number): Screens {
  // Pages poll in real time, so the simulated clock does not apply.
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
