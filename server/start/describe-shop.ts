// The lines printed once the shop has started.

import type { Shop } from '../shop.ts';
import type { FirstAdmin } from './first-admin.ts';

/** Lines for the console: URLs, and the first account with its password, which is shown only once. */
export function describeShop({
  url,
  phonePageUrl,
  practiceRideUrl,
  firstAdmin,
}: Pick<Shop, 'url' | 'phonePageUrl' | 'practiceRideUrl' | 'firstAdmin'>): string {
  const lines = [`Jani Juice is open:   ${url}`, `Staff panel:          ${url}/admin/login`];
  if (firstAdmin?.outcome === 'made') lines.push(describeFirstAdmin(firstAdmin));
  if (phonePageUrl) lines.push(`Simulated payments:   ${phonePageUrl}   (the customer's phone)`);
  if (practiceRideUrl)
    lines.push(`Practice rider:       ${practiceRideUrl}   (assign deliveries to “Practice rider”)`);
  return `\n${lines.map((line) => `  ${line}\n`).join('')}\n`;
}

/** The line with the first account. */
export function describeFirstAdmin({ email, password }: Extract<FirstAdmin, { outcome: 'made' }>): string {
  return `First staff account:  ${email}${password ? `  password: ${password}` : ''}`;
}
