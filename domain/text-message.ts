// How long a text message is: networks send 160 signs of their own alphabet, or 70 of any other, and charge by the part.

// 3GPP TS 23.038, the default alphabet, and what takes two places in it.
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
 * Writes a text in the networks' alphabet where that loses nothing but an accent or a curl: `Wanjirũ` as `Wanjiru`.
 * @param text as it would be in a mail
 * @returns the text; signs that have no like stay, and make the message a long one
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
  /** Places the text takes. */
  places: number;
  /** How many fit into one message: 160, or 70 when a sign is not of the networks' alphabet. */
  fit: 160 | 70;
  /** Messages it is charged as. */
  parts: number;
}

/** Measures a text as it is charged (3GPP TS 23.038 and 23.040: parts of a longer text hold 153 or 67). */
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
