// Whether a moment has passed: renders again when it does.
import { useEffect, useState } from 'react';

/** @param at milliseconds since 1970; null: never */
export function useIsPast(at: number | null): boolean {
  const [passed, setPassed] = useState<number | null>(null);
  useEffect(() => {
    if (at === null) return;
    const timer = setTimeout(() => setPassed(at), Math.max(0, at - Date.now()));
    return () => clearTimeout(timer);
  }, [at]);
  return at !== null && passed === at;
}
