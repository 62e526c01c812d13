/** Such as "3rd"; the database counts to 100. */
export const ordinal = (number: number): string =>
  number >= 100
    ? '100th+'
    : `${number}${(number - (number % 10) !== 10 && ['', 'st', 'nd', 'rd'][number % 10]) || 'th'}`;
