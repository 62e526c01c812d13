// How phone numbers are shown.

/**
 * Formats a number in groups, as people read it aloud.
 * @param phone a number as `normalisePhone` gives it; anything else comes back unchanged
 * @returns such as `0712 345 678`
 */
export function formatPhone(phone: string): string {
  const match = /^\+254(\d{3})(\d{3})(\d{3})$/.exec(phone);
  return match ? `0${match[1]} ${match[2]} ${match[3]}` : phone;
}
