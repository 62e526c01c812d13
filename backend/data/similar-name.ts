// Guesses what a misspelt name may have meant.

/**
 * Finds the candidate most like a name.
 * @param atLeast how alike it must be, 0 to 1
 * @returns the most similar candidate, or null
 */
export function mostSimilar(name: string, candidates: Iterable<string>, atLeast: number): string | null {
  const wanted = gramsOf(name);
  let best: string | null = null;
  let bestScore = atLeast;
  for (const candidate of candidates) {
    const score = cosine(wanted, gramsOf(candidate));
    if (score >= bestScore && (best === null || score > bestScore)) {
      best = candidate;
      bestScore = score;
    }
  }
  return best;
}

function gramsOf(name: string): Map<string, number> {
  const padded = `-${name.toLowerCase()}-`;
  const grams = new Map<string, number>();
  for (let at = 0; at + 2 <= padded.length; at++) {
    const gram = padded.slice(at, at + 2);
    grams.set(gram, (grams.get(gram) ?? 0) + 1);
  }
  return grams;
}

function cosine(left: Map<string, number>, right: Map<string, number>): number {
  let dot = 0;
  for (const [gram, count] of left) dot += count * (right.get(gram) ?? 0);
  const length = (grams: Map<string, number>) =>
    Math.sqrt([...grams.values()].reduce((sum, count) => sum + count * count, 0));
  return dot / (length(left) * length(right));
}
