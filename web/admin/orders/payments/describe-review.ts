import { formatKes } from '../../../../domain/money.ts';

/** Why a payment needs review, with cents as money. The sentences are those of `settle_payment`. */
export const describeReview = (description: string | null | undefined): string =>
  (description ?? '').replace(
    /(no|\d+) cents, (\d+) were charged/,
    (_, reported: string, charged: string) =>
      `${reported === 'no' ? 'no amount' : formatKes(Number(reported))}, ${formatKes(Number(charged))} was charged`,
  );
