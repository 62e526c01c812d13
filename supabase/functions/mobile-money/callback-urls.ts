// The URLs at which M-PESA calls the function: one path per purpose.

/** `notice` receives STK callbacks. Daraja rejects some words in URLs; these are allowed. */
export type Purpose = 'notice' | 'reversal' | 'reach';

/**
 * Returns the base URL of another purpose.
 * @param callbackBaseUrl `…/mobile-money/notice`
 * @returns `…/mobile-money/{purpose}` without a trailing slash
 */
export function callbackUrlFor(callbackBaseUrl: string, purpose: Purpose): string {
  return callbackBaseUrl.replace(/\/notice$/, `/${purpose}`);
}
