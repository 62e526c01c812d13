// The form of a search synonym: the word that customers type, and the catalogue's words for it.

export interface SynonymForm {
  word: string;
  /** Empty: the word matches any drink. */
  means: string;
}
export type SynonymProblems = Partial<Record<keyof SynonymForm, string>>;

/** Limits of the database. */
export const synonymLimits = {
  wordLength: 60,
  wordWords: 3,
  meansLength: 200,
  meansWords: 10,
  count: 500,
} as const;

/** A text as the database stores it: lower case, without accents and punctuation, single spaces. */
export function foldWords(text: string): string {
  return text
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[\u0300-\u036f'’]/g, '')
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim();
}

const countWords = (folded: string) => (folded === '' ? 0 : folded.split(' ').length);
const isLonger = (folded: string, length: number, words: number) =>
  [...folded].length > length || countWords(folded) > words;

const wordProblem = `Search word takes 1 to ${synonymLimits.wordWords} words of at most ${synonymLimits.wordLength} characters`;
const meansProblem = `Meaning takes at most ${synonymLimits.meansWords} words of ${synonymLimits.meansLength} characters`;
const wordTaken = 'This search word is listed already, in singular or plural';
const tooMany = `There are ${synonymLimits.count} search words already: remove one first`;

/**
 * Returns the problems of a synonym by field.
 * @param others the existing words
 * @returns an empty object when it may be saved
 */
export function checkSynonym(form: SynonymForm, others: readonly string[]): SynonymProblems {
  const [word, means] = [foldWords(form.word), foldWords(form.means)];
  const problems: SynonymProblems = {};
  if (word === '') problems.word = 'Search word is required';
  else if (isLonger(word, synonymLimits.wordLength, synonymLimits.wordWords)) problems.word = wordProblem;
  else if (others.includes(word)) problems.word = wordTaken;
  if (isLonger(means, synonymLimits.meansLength, synonymLimits.meansWords)) problems.means = meansProblem;
  return problems;
}

/** The problems by field of a database error; null when it is about no field. */
export function synonymProblemsOf({
  code,
  message,
}: {
  code?: string;
  message: string;
}): SynonymProblems | null {
  if (code === '23505') return { word: wordTaken };
  if (code !== '23514') return null;
  if (message.includes('at most 500 search words')) return { word: tooMany };
  return message.includes('a meaning is') ? { means: meansProblem } : { word: wordProblem };
}
