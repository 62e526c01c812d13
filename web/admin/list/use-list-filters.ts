// Search text and filters of a list, stored in the URL, so that a list can be reloaded, shared and returned to.
import { useEffect, useRef, useState } from 'react';
import { useNavigation, useSearchParams } from 'react-router';

/** Delay of the search after the last key, in ms. */
const pauseMs = 250;

export interface ListFilters<Values> {
  /** The current search and filters. */
  values: Readonly<Values>;
  /** Sets one at once; '' clears it. */
  set<Name extends keyof Values & string>(name: Name, value: Values[Name]): void;
  /** A button that sets a filter, and clears it when it is set. */
  toggle<Name extends keyof Values & string>(
    name: Name,
    value: Values[Name],
  ): { isOn: boolean; onToggle(): void };
  clear(): void;
  /** Whether any filter or search is active. */
  isNarrowed: boolean;
}

/**
 * @param none the search parameters without a search or filter: all are ''
 * @returns the values of the URL, unchecked: the database of a later version may know one that is unknown here
 */
export function useListFilters<Values extends { [Name in keyof Values]: string }>(
  none: Values,
): ListFilters<Values> {
  const [parameters, setParameters] = useSearchParams();
  const values = Object.fromEntries(
    Object.keys(none).map((name) => [name, (parameters.get(name) ?? '').trim()]),
  ) as Values;
  // A change may follow another before the URL is updated: it is based on that one.
  const pendingParameters = useRef<URLSearchParams>(null);
  const { state } = useNavigation();
  // biome-ignore lint/correctness/useExhaustiveDependencies: resets once the URL is updated
  useEffect(() => {
    if (state === 'idle') pendingParameters.current = null;
  }, [state, parameters]);
  const change = (changes: Readonly<Record<string, string>>) => {
    const next = new URLSearchParams(pendingParameters.current ?? parameters);
    for (const [name, value] of Object.entries(changes)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    pendingParameters.current = next;
    setParameters(next, { replace: true, preventScrollReset: true });
  };
  return {
    values,
    set: (name, value) => change({ [name]: value.trim() }),
    toggle: (name, value) => ({
      isOn: values[name] === value,
      onToggle: () => change({ [name]: values[name] === value ? '' : value }),
    }),
    clear: () => change(none),
    isNarrowed: Object.values(values).some((value) => value !== ''),
  };
}

/**
 * The text in a search box, which follows every key; the search itself is debounced.
 * @param searched the current search text
 * @param search changes it
 */
export function useTypedSearch(searched: string, search: (text: string) => void) {
  const [typed, setTyped] = useState(searched);
  const lastSearch = useRef(searched);
  // Searches of this box that the URL does not show yet: on a slow device more was typed since.
  const sent = useRef<string[]>([]);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    const own = sent.current.indexOf(searched);
    sent.current.splice(0, own + 1);
    // Changed from outside: the Back button, or 'Clear'.
    if (own === -1 && searched !== lastSearch.current) {
      lastSearch.current = searched;
      setTyped(searched);
    }
  }, [searched]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const runSearch = (text: string) => {
    clearTimeout(timer.current);
    if (text.trim() === lastSearch.current) return;
    lastSearch.current = text.trim();
    sent.current.push(lastSearch.current);
    search(lastSearch.current);
  };
  // After the delay the other filters may have changed.
  const latestSearch = useRef(runSearch);
  useEffect(() => {
    latestSearch.current = runSearch;
  });
  return {
    typed,
    type(text: string) {
      setTyped(text);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => latestSearch.current(text), pauseMs);
    },
    /** Searches at once. */
    searchNow: () => runSearch(typed),
  };
}
