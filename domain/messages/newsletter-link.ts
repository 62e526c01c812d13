// URLs of the pages that confirm or end a newsletter subscription.

export type NewsletterStep = 'confirm' | 'unsubscribe';

/**
 * URL of a newsletter page. Opening it changes nothing, because mail scanners follow links.
 * @param publicUrl the shop's public URL without a trailing slash
 * @param token from the email; null omits it
 */
export function newsletterLink(publicUrl: string, step: NewsletterStep, token: string | null): string {
  return `${publicUrl}/newsletter/${step}${token === null ? '' : `?token=${encodeURIComponent(token)}`}`;
}
