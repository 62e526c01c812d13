// Limits the cost of regular expressions from clients. PostgreSQL builds an automaton for each before it matches, and the
// embedded database cannot be interrupted in between: one pattern could block every request permanently.

const maxLength = 1000;
const maxDepth = 30;

/**
 * Estimates the number of states of a pattern's automaton; building it may take time proportional to their third power.
 * @param pattern PostgreSQL's advanced regular expression; the result means nothing for an invalid one
 * @returns Infinity for long and deeply nested patterns, and for back references, which backtrack through all combinations
 */
export function patternCost(pattern: string): number {
  if (pattern.length > maxLength || /\\[1-9]/.test(pattern)) return Number.POSITIVE_INFINITY;
  // States of each open group, and of its last element, which a count may multiply.
  const groups = [{ states: 0, last: 0 }];
  const add = (states: number) => {
    const group = groups.at(-1);
    if (!group) return;
    group.states += states;
    group.last = states;
  };
  // A scanner instead of a regular expression: the text comes from a client, and nothing may backtrack.
  for (let at = 0, end = 0; at < pattern.length; at = end) {
    end = tokenEnd(pattern, at);
    const first = pattern.charAt(at);
    if (first === '(') {
      groups.push({ states: 0, last: 0 });
      if (groups.length > maxDepth) return Number.POSITIVE_INFINITY;
    } else if (first === ')') {
      const closed = groups.length > 1 ? groups.pop() : undefined;
      add(1 + (closed?.states ?? 0));
    } else if (first === '{' && end > at + 1) {
      const group = groups.at(-1);
      const times = Math.max(1, ...pattern.slice(at, end).split(/\D/).map(Number));
      if (group) {
        const repeated = group.last * times;
        group.states += repeated - group.last;
        group.last = repeated;
      }
    } else if (!'*+?|^$'.includes(first)) add(1);
  }
  return groups.reduce((sum, { states }) => sum + states, 0);
}

const repetition = /\{\d{1,5}(?:,\d{0,5})?\}\??/y;

/** Where the token at a position ends: a bracket expression, an escape, a counted repetition, or one character. */
function tokenEnd(pattern: string, start: number): number {
  const first = pattern[start];
  if (first === '[') return bracketEnd(pattern, start);
  if (first === '\\') return Math.min(start + 2, pattern.length);
  if (first !== '{') return start + 1;
  repetition.lastIndex = start;
  return repetition.test(pattern) ? repetition.lastIndex : start + 1;
}

/** Where a bracket expression ends; one that is never closed takes the rest of the pattern, which PostgreSQL refuses. */
function bracketEnd(pattern: string, start: number): number {
  let at = start + 1;
  if (pattern[at] === '^') at += 1;
  // At the first position it is literal.
  if (pattern[at] === ']') at += 1;
  while (at < pattern.length) {
    const character = pattern[at];
    if (character === ']') return at + 1;
    const next = pattern[at + 1] ?? '';
    const isClass = character === '[' && (next === ':' || next === '.' || next === '=');
    const classEnd = isClass ? pattern.indexOf(`${next}]`, at + 2) : -1;
    if (classEnd >= 0) at = classEnd + 2;
    else at += character === '\\' ? 2 : 1;
  }
  return pattern.length;
}
