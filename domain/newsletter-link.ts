// Addresses of the pages by which a reader confirms or ends a newsletter subscription.

export type NewsletterStep = 'confirm' | 'unsubscribe';

/**
 * Address of a newsletter page. Opening it changes nothing: mail scanners follow links.
 * @param publicUrl the shop's public URL without a trailing slash
 * @param token from the mail; null leaves it out
 */
export function newsletterLink(publicUrl: string, step: NewsletterStep, token: string | null): string {
  return `${publicUrl}/newsletter/${step}${token === null ? '' : `?token=${encodeURIComponent(token)}`}`;
}
