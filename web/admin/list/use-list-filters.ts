// Search text and filters of a list. They live in the address, so that a list can be reloaded, shared and gone back to.
import { useEffect, useRef, useState } from 'react';
import { useNavigation, useSearchParams } from 'react-router';

/** So long after the last key the search is made. */
const pauseMs = 250;

export interface ListFilters<Name extends string> {
  /** What is searched and filtered by now; '' where nothing is. */
  values: Readonly<Record<Name, string>>;
  /** Sets one at once; '' clears it. */
  set(name: Name, value: string): void;
  clear(): void;
  /** Whether anything narrows the list. */
  isNarrowed: boolean;
}

/** @param names of the search parameters, such as 'search' and 'status' */
export function useListFilters<const Name extends string>(names: readonly Name[]): ListFilters<Name> {
  const [parameters, setParameters] = useSearchParams();
  const values = Object.fromEntries(
    names.map((name) => [name, (parameters.get(name) ?? '').trim()]),
  ) as Record<Name, string>;
  // One change may follow another before the address shows the first: it is made on top of that one.
  const wanted = useRef<URLSearchParams>(null);
  const { state } = useNavigation();
  // biome-ignore lint/correctness/useExhaustiveDependencies: once the address shows what was wanted
  useEffect(() => {
    if (state === 'idle') wanted.current = null;
  }, [state, parameters]);
  const change = (changes: Partial<Record<string, string>>) => {
    const next = new URLSearchParams(wanted.current ?? parameters);
    for (const [name, value] of Object.entries(changes)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    wanted.current = next;
    setParameters(next, { replace: true, preventScrollReset: true });
  };
  return {
    values,
    set: (name, value) => change({ [name]: value.trim() }),
    clear: () => change(Object.fromEntries(names.map((name) => [name, '']))),
    isNarrowed: names.some((name) => values[name] !== ''),
  };
}

/**
 * The text in a search box, which follows every key, while the search waits for a pause.
 * @param searched the current search text
 * @param search makes it another text
 */
export function useTypedSearch(searched: string, search: (text: string) => void) {
  const [typed, setTyped] = useState(searched);
  const asked = useRef(searched);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    // Changed from elsewhere: the back button, or 'Clear'.
    if (searched !== asked.current) {
      asked.current = searched;
      setTyped(searched);
    }
  }, [searched]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const ask = (text: string) => {
    clearTimeout(timer.current);
    if (text.trim() === asked.current) return;
    asked.current = text.trim();
    search(asked.current);
  };
  // When the pause is over, the other filters may have changed since the last key.
  const askNow = useRef(ask);
  useEffect(() => {
    askNow.current = ask;
  });
  return {
    typed,
    type(text: string) {
      setTyped(text);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => askNow.current(text), pauseMs);
    },
    /** Without waiting for the pause. */
    searchNow: () => ask(typed),
  };
}
