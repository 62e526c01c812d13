// The URLs at which M-PESA calls the function: one path per purpose.

/** `notice` receives STK callbacks. Daraja rejects URLs with some words, but not with these. */
export type Purpose = 'notice' | 'reversal' | 'till' | 'reach';

/**
 * Returns the base URL of another purpose.
 * @param callbackBaseUrl `…/mobile-money/notice`
 * @returns `…/mobile-money/{purpose}` without a trailing slash
 */
export function callbackUrlFor(callbackBaseUrl: string, purpose: Purpose): string {
  return callbackBaseUrl.replace(/\/notice$/, `/${purpose}`);
}

/** The answer to a URL without a valid secret. */
export function unknownUrl(): Response {
  return Response.json({ error: 'Not found' }, { status: 404 });
}
