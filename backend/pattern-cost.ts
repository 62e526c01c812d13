// How much a regular expression of a stranger may cost. PostgreSQL builds a machine for it before it reads a sign, and
// the embedded database cannot be stopped at that: one pattern would hold up everybody, for ever.

const longest = 1000;
const deepest = 30;

/**
 * How many states the machine for a pattern has, about; building it may take as long as their third power.
 * @param pattern PostgreSQL's advanced regular expression; of one that is none the answer means nothing
 * @returns Infinity for long and deeply nested ones, and for references back, which are tried in every possible way
 */
export function patternCost(pattern: string): number {
  if (pattern.length > longest || /\\[1-9]/.test(pattern)) return Number.POSITIVE_INFINITY;
  // States of each group that is open, and of what came last in it, which a count may multiply.
  const groups = [{ states: 0, last: 0 }];
  const add = (states: number) => {
    const group = groups.at(-1);
    if (!group) return;
    group.states += states;
    group.last = states;
  };
  // A bracket expression, an escape, a counted repetition, or any one sign.
  for (const [token] of pattern.matchAll(
    /\[\^?\]?(?:\[[:.=].*?[:.=]\]|\\.|[^\]])*\]|\\.|\{\d+(?:,\d*)?\}\??|./gs,
  )) {
    if (token === '(') {
      groups.push({ states: 0, last: 0 });
      if (groups.length > deepest) return Number.POSITIVE_INFINITY;
    } else if (token === ')') {
      const closed = groups.length > 1 ? groups.pop() : undefined;
      add(1 + (closed?.states ?? 0));
    } else if (/^\{\d/.test(token)) {
      const group = groups.at(-1);
      const times = Math.max(1, ...[...token.matchAll(/\d+/g)].map(Number));
      if (group) {
        const repeated = group.last * times;
        group.states += repeated - group.last;
        group.last = repeated;
      }
    } else if (!'*+?|^$'.includes(token)) add(1);
  }
  return groups.reduce((sum, { states }) => sum + states, 0);
}
