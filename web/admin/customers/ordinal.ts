const rules = new Intl.PluralRules('en', { type: 'ordinal' });
const endings: Partial<Record<Intl.LDMLPluralRule, string>> = { one: 'st', two: 'nd', few: 'rd' };

/** Such as "3rd"; the database counts to 100. */
export const ordinal = (number: number): string =>
  number >= 100 ? '100th or later' : `${number}${endings[rules.select(number)] ?? 'th'}`;
