// Tracking numbers: JJ-YYYYMMDD-NNNN.

/**
 * A tracking number as it is kept, from what somebody typed or pasted.
 * @returns trimmed and in capitals; '' when blank
 */
export function normaliseTrackingNumber(input: string): string {
  return input.trim().toUpperCase();
}

/**
 * The form that fits M-PESA's AccountReference of at most 12 characters (Daraja, STK push).
 * @param trackingNumber such as `JJ-20261121-1234`
 * @returns such as `JJ2611211234`; longer numbers of a busy day lose their hyphens and century and then their JJ
 */
export function accountReference(trackingNumber: string): string {
  const compact = trackingNumber.replace(/^JJ-\d\d(\d{6})-/, 'JJ$1');
  return compact.length <= 12 ? compact : compact.replace(/^JJ/, '').slice(0, 12);
}
