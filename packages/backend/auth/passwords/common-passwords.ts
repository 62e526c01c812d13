// Detects guessable passwords: common ones, their variations, and words of the site or the user.

/** Characters that stand for letters, as in `P@ssw0rd`; `1` and `!` stand for two. */
const substitutes: Readonly<Record<string, string>> = {
  '@': 'a',
  '4': 'a',
  '8': 'b',
  '3': 'e',
  '6': 'g',
  '0': 'o',
  $: 's',
  '5': 's',
  '7': 't',
  '+': 't',
  '2': 'z',
};

// About 49,000 passwords from leaks, sorted by frequency; 15 MB in memory, so it is loaded by the first check.
let list: Promise<ReadonlySet<string>> | null = null;

async function loadList(): Promise<ReadonlySet<string>> {
  const { dictionary } = await import('@zxcvbn-ts/language-common');
  return new Set<string>(dictionary['passwords-common'].filter((word) => word.length >= 4));
}

/**
 * Whether a password is easy to guess.
 * @param password at most 128 characters
 * @param words of the site and of the user, such as its name and the address; those shorter than three characters do not count
 */
export async function isCommonPassword(password: string, words: readonly string[]): Promise<boolean> {
  list ??= loadList();
  const common = await list;
  const siteWords = [...new Set(words.flatMap(wordsIn))];
  const plain = password.normalize('NFKC').toLowerCase();
  return variantsOf(plain).some((variant) => isPredictable(variant) || isKnown(variant, common, siteWords));
}

const wordsIn = (text: string): string[] =>
  text
    .normalize('NFKC')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word.length >= 3);

/** Variants of the password: as is, without characters around a word, and with letters for their substitutes. */
function variantsOf(plain: string): string[] {
  const core = plain.replace(/^[^\p{L}]+|[^\p{L}]+$/gu, '');
  const withoutTail = plain.replace(/[\d!?.,*#_-]+$/, '');
  const spelled = [plain, core, withoutTail].flatMap((text) => [
    text,
    withLetters(text, 'i'),
    withLetters(text, 'l'),
  ]);
  return [...new Set(spelled.map((text) => text.replace(/[^\p{L}\p{N}]+/gu, '')))].filter(Boolean);
}

const withLetters = (text: string, one: string): string =>
  [...text]
    .map((character) => substitutes[character] ?? ('1!|'.includes(character) ? one : character))
    .join('');

/** Few different characters, a run such as `abcdefgh`, or digits alone as in phone numbers and dates. */
function isPredictable(text: string): boolean {
  const codes = [...text].map((character) => character.codePointAt(0) ?? 0);
  if (codes.length < 8) return false;
  const steps = codes.slice(1).map((code, index) => code - (codes[index] ?? 0));
  const isRun = steps.every((step) => step === 1) || steps.every((step) => step === -1);
  return new Set(codes).size < 5 || isRun || (codes.length < 12 && /^\d+$/.test(text));
}

function isKnown(text: string, common: ReadonlySet<string>, own: readonly string[]): boolean {
  if (common.has(text)) return true;
  const unit = /^(.{3,}?)\1+$/u.exec(text)?.[1];
  if (unit && common.has(unit)) return true;
  // Longest first: a shorter one may be part of it.
  const rest = [...own]
    .sort((a, b) => b.length - a.length)
    .reduce((left, word) => left.replaceAll(word, ''), text);
  return rest !== text && (rest.length < 4 || common.has(rest));
}
