// Suggests a name for a misspelt one.

/** Maximum number of names that are compared by edit distance. */
const maxCompared = 50;
/** Maximum characters of a compared name: the work grows with them, and clients may send any number. */
const maxLength = 300;

/**
 * Finds the candidate most similar to a name: of those that share most trigrams, else bigrams, the one with
 * the fewest edits.
 * @param atLeast minimum similarity, 0 to 1: one minus the edits per letter
 * @returns the most similar candidate, or null
 */
export function mostSimilar(name: string, candidates: Iterable<string>, atLeast: number): string | null {
  if (name.length > maxLength) return null;
  const lowerCase = name.toLowerCase();
  const names = [...candidates];
  for (const size of [3, 2]) {
    const grams = gramsOf(lowerCase, size);
    const near = names
      .map((candidate) => ({ candidate, score: cosine(grams, gramsOf(candidate.toLowerCase(), size)) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, maxCompared);
    let best: string | null = null;
    let bestScore = 0;
    for (const { candidate } of near) {
      const other = candidate.toLowerCase();
      const score = 1 - editsBetween(lowerCase, other) / Math.max(lowerCase.length, other.length);
      if (score >= atLeast && score > bestScore) {
        best = candidate;
        bestScore = score;
      }
    }
    if (best !== null) return best;
  }
  return null;
}

function gramsOf(name: string, size: number): Map<string, number> {
  const padded = `-${name.replace(/[^\p{L}\p{N}, ]+/gu, '')}-`.padEnd(size, '-');
  const grams = new Map<string, number>();
  for (let at = 0; at + size <= padded.length; at++) {
    const gram = padded.slice(at, at + size);
    grams.set(gram, (grams.get(gram) ?? 0) + 1);
  }
  return grams;
}

function cosine(left: Map<string, number>, right: Map<string, number>): number {
  let dot = 0;
  for (const [gram, count] of left) dot += count * (right.get(gram) ?? 0);
  if (dot === 0) return 0;
  const length = (grams: Map<string, number>) =>
    Math.sqrt([...grams.values()].reduce((sum, count) => sum + count * count, 0));
  return dot / (length(left) * length(right));
}

/** Levenshtein's distance. */
function editsBetween(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let at = 1; at <= left.length; at++) {
    const next = [at];
    for (let other = 1; other <= right.length; other++) {
      const isSame = left[at - 1] === right[other - 1];
      const substituted = (row[other - 1] ?? 0) + (isSame ? 0 : 1);
      next.push(Math.min(substituted, (row[other] ?? 0) + 1, (next[other - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[right.length] ?? 0;
}
