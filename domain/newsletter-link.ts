// Addresses of the pages by which a reader confirms or ends a newsletter subscription.

export type NewsletterStep = 'confirm' | 'unsubscribe';

/**
 * Address of a newsletter page. Opening it changes nothing: mail scanners follow links.
 * @param publicUrl what the outside calls the shop, without a slash at its end
 * @param token from the mail; null leaves it out
 */
export function newsletterLink(publicUrl: string, step: NewsletterStep, token: string | null): string {
  return `${publicUrl}/newsletter/${step}${token === null ? '' : `?token=${encodeURIComponent(token)}`}`;
}
