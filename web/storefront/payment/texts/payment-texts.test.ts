import { expect, test } from 'vitest';
import { english, type PaymentTexts } from './english.ts';
import { kiswahili } from './kiswahili.ts';
import { storedLanguage, storeLanguage } from './payment-language.tsx';

const codes = ['1', '17', '1001', '1019', '1025', '1032', '1037', '2001', '2028', null];
/** All texts of a language, with the same values filled in. */
const filledIn = (texts: PaymentTexts) => ({
  ...Object.fromEntries(Object.entries(texts).filter(([, text]) => typeof text === 'string')),
  pay: texts.pay('KSh 951.00'),
  payInCash: texts.payInCash('KSh 951.00'),
  promptEnded: texts.promptEnded('0712 ••• •••'),
  otherNetwork: texts.otherNetwork('Airtel'),
  thanks: texts.thanks('Wanjiku'),
  arrivesBy: texts.arrivesBy('22:14'),
  reminder: texts.reminder({ drinks: '2 × Mango', number: 'JJ-20261129-7017' }),
  call: texts.call('0700 000 000'),
  tryAgainIn: texts.tryAgainIn('1:59'),
  answerThatOne: texts.answerThatOne('0712 ••• •••'),
  haveReady: texts.haveReady('KSh 951.00'),
  riderCollects: texts.riderCollects('KSh 951.00'),
  ...Object.fromEntries(codes.map((code) => [`failure ${code}`, texts.failure(code)])),
});

test('Kiswahili has each text of its own, with the same amounts, numbers and emojis', () => {
  const swahili: Record<string, unknown> = filledIn(kiswahili);
  const fixed =
    /KSh 951\.00|0712 ••• •••|Airtel|Wanjiku|22:14|2 × Mango|JJ-[\d-]+|0700 000 000|1:59|M-PESA|Fuliza|Safaricom|\p{Extended_Pictographic}/gu;
  for (const [name, text] of Object.entries(filledIn(english))) {
    const translated = String(swahili[name]);
    if (!name.startsWith('thanks')) expect(translated, name).not.toBe(text);
    const kept = [...new Set(String(text).match(fixed) ?? [])];
    expect(
      kept.filter((part) => !translated.includes(part)),
      name,
    ).toEqual([]);
  }
  expect(codes.map((code) => kiswahili.advice(code) !== null)).toEqual(
    codes.map((code) => english.advice(code) !== null),
  );
});

test('says the day of an arrival in Kiswahili', () => {
  expect(kiswahili.arrivesBy('22:14')).toBe('Itakufikia kabla ya 22:14');
  expect(kiswahili.arrivesBy('08:45 tomorrow')).toBe('Itakufikia kabla ya 08:45 kesho');
  expect(kiswahili.arrivesBy('08:45 on Mon 30 Nov')).toBe('Itakufikia kabla ya 08:45 Jumatatu tarehe 30');
});

test('remembers the language on the device, and ignores what it does not know', () => {
  const stored = new Map<string, string>();
  const device = {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, text: string) => void stored.set(key, text),
    removeItem: (key: string) => void stored.delete(key),
  };
  expect(storedLanguage(device)).toBe('en');
  storeLanguage('sw', device);
  expect(storedLanguage(device)).toBe('sw');
  storeLanguage('en', device);
  expect(stored.size).toBe(0);
  stored.set('jani.payment-language', 'fr');
  expect(storedLanguage(device)).toBe('en');
  expect(storedLanguage(null)).toBe('en');
});
