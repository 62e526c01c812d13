// Where M-PESA tells us of what: one path per purpose, beside the one of prompts.

/** What notices are about. None of these words may be one that Daraja refuses in an address. */
export type Purpose = 'notice' | 'reversal' | 'reach';

/**
 * The address of another purpose.
 * @param noticeBaseUrl `…/mobile-money/notice`
 * @returns `…/mobile-money/{purpose}`, without a slash at the end
 */
export function addressFor(noticeBaseUrl: string, purpose: Purpose): string {
  return noticeBaseUrl.replace(/\/notice$/, `/${purpose}`);
}
