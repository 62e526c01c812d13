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
    .map((sign) => {
      if (basic.has(sign) || extended.has(sign)) return sign;
      const known = plain[sign];
      if (known !== undefined) return known;
      const bare = sign.normalize('NFD').replace(/\p{M}/gu, '');
      return bare !== '' && [...bare].every((letter) => basic.has(letter)) ? bare : sign;
    })
    .join('');
}

export interface TextLength {
  /** Positions that the text takes. */
  places: number;
  /** Positions of one message: 160, or 70 with a character outside the GSM alphabet. */
  fit: 160 | 70;
  /** Number of charged messages. */
  parts: number;
}

/** Measures a text as networks charge it (3GPP TS 23.038 and 23.040: parts of a longer text have 153 or 67 positions). */
export function textLength(text: string): TextLength {
  const signs = [...text];
  const isPlain = signs.every((sign) => basic.has(sign) || extended.has(sign));
  if (!isPlain) return measured(text.length, 70, 67);
  return measured(signs.length + signs.filter((sign) => extended.has(sign)).length, 160, 153);
}

const measured = (places: number, fit: 160 | 70, each: number): TextLength => ({
  places,
  fit,
  parts: places <= fit ? 1 : Math.ceil(places / each),
});
