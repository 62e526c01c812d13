// Labels of the database's states. A later version of the database may have a state that an open tab does not know: every lookup goes
// through here, and such a state is shown in its own words.

/** A state in words: `picked_up` is 'Picked Up'. */
const wordsOf = (state: string): string =>
  state
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(' ');

/**
 * The entry of a state.
 * @param describe makes the entry of an unknown state from its words
 */
export function entryOf<State extends string, Entry>(
  entries: Readonly<Partial<Record<State, Entry>>>,
  state: State,
  describe: (words: string) => Entry,
): Entry {
  const entry = Object.hasOwn(entries, state) ? entries[state] : undefined;
  return entry === undefined ? describe(wordsOf(state)) : entry;
}

/** The label of a state. */
export const labelOf = <State extends string>(
  labels: Readonly<Partial<Record<State, string>>>,
  state: State,
): string => entryOf(labels, state, (words) => words);
