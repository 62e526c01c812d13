// Length of a text message: networks send 160 characters of the GSM alphabet or 70 of any other, and charge per part.

// 3GPP TS 23.038: the default alphabet, and the characters that take two positions.
const basic = new Set(
  '@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !"#¤%&\'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà',
);
const extended = new Set('\f^{}\\[~]|€');
const plain: Record<string, string> = {
  '‘': "'",
  '’': "'",
  '“': '"',
  '”': '"',
  '–': '-',
  '—': '-',
  '…': '...',
  '•': '-',
  '×': 'x',
  '\u00a0': ' ',
  '\u202f': ' ',
};

/**
 * Converts a text to the GSM alphabet where that only loses accents and typographic quotes: `Wanjirũ` as `Wanjiru`.
 * @param text as in an email
 * @returns the text; other characters are unchanged, and reduce the limit
 */
export function plainText(text: string): string {
  return [...text.normalize('NFC')]
    .map((character) => {
      if (basic.has(character) || extended.has(character)) return character;
      const replacement = plain[character];
      if (replacement !== undefined) return replacement;
      const bare = character.normalize('NFD').replace(/\p{M}/gu, '');
      return bare !== '' && [...bare].every((letter) => basic.has(letter)) ? bare : character;
    })
    .join('');
}

export interface TextLength {
  /** Positions that the text takes. */
  positions: number;
  /** Positions of one message: 160, or 70 with a character outside the GSM alphabet. */
  limit: 160 | 70;
  /** Number of charged messages. */
  parts: number;
}

/** Measures a text as networks charge it (3GPP TS 23.038 and 23.040: parts of a longer text have 153 or 67 positions). */
export function textLength(text: string): TextLength {
  const characters = [...text];
  const isPlain = characters.every((character) => basic.has(character) || extended.has(character));
  if (!isPlain) return measured(text.length, 70, 67);
  return measured(
    characters.length + characters.filter((character) => extended.has(character)).length,
    160,
    153,
  );
}

const measured = (positions: number, limit: 160 | 70, each: number): TextLength => ({
  positions,
  limit,
  parts: positions <= limit ? 1 : Math.ceil(positions / each),
});
