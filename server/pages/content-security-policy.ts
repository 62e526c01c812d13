// The content security policy of a rendered page: only scripts of our origin or with a listed hash run.
import { createHash } from 'node:crypto';

const inlineScript = /<script(?![^>]*\ssrc=)[^>]*>([\s\S]*?)<\/script>/gi;

/**
 * Builds the policy for one page.
 * @param html the whole page
 * @param connectTo further origins that the page's scripts may call
 * @returns the value of the Content-Security-Policy header
 */
export function contentSecurityPolicy(html: string, connectTo: readonly string[] = []): string {
  const hashes = new Set<string>();
  for (const [, script = ''] of html.matchAll(inlineScript)) {
    hashes.add(`'sha256-${createHash('sha256').update(script).digest('base64')}'`);
  }
  return [
    `default-src 'self'`,
    `script-src 'self' ${[...hashes].join(' ')}`.trim(),
    // Dialogs and toasts set styles of their own while they move.
    `style-src 'self' 'unsafe-inline'`,
    `img-src 'self' data: blob: ${connectTo.filter((origin) => origin.startsWith('http')).join(' ')}`.trim(),
    `font-src 'self'`,
    `connect-src 'self' ${connectTo.join(' ')}`.trim(),
    `manifest-src 'self'`,
    `worker-src 'self'`,
    `object-src 'none'`,
    `base-uri 'self'`,
    `form-action 'self'`,
    `frame-ancestors 'none'`,
  ].join('; ');
}
