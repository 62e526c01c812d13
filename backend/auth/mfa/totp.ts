// Codes of an authenticator app (RFC 6238): the secret a person scans, and the check of what the app then shows.
import { Secret, TOTP } from 'otpauth';

const algorithm = 'SHA1';
const digits = 6;
const period = 30;

/** What an authenticator app is given, in three shapes of the same thing. */
export interface TotpEnrolment {
  /** Base32, without padding. */
  secret: string;
  /** `otpauth://totp/…`, as the Key URI format has it. */
  uri: string;
  /** An SVG drawing of the URI. */
  qrCode: string;
}

/**
 * Draws a new secret of 160 bits, the length RFC 4226 recommends.
 * @param issuer who asks for the codes, shown in the app
 * @param account whose codes they are, shown in the app
 */
export async function newTotp(issuer: string, account: string): Promise<TotpEnrolment> {
  const totp = new TOTP({
    issuer,
    label: account,
    algorithm,
    digits,
    period,
    secret: new Secret({ size: 20 }),
  });
  const uri = totp.toString();
  const { toString: drawQrCode } = await import('qrcode');
  const drawing = await drawQrCode(uri, { type: 'svg', width: 240 });
  return {
    secret: totp.secret.base32,
    uri,
    // Clients put the drawing into a data URI as it is, where a hash sign would end it.
    qrCode: drawing.replaceAll('#ffffff', 'white').replaceAll('#000000', 'black').trim(),
  };
}

/**
 * Finds the time step a code belongs to: the present one, or one before or after it.
 * @param secret base32
 * @param code what was typed; anything but six digits matches nothing
 * @param now milliseconds since the epoch
 * @returns the step (seconds since the epoch / 30), which whoever accepts the code has to remember, so that it is
 *   accepted only once (RFC 6238, 5.2); null when the code is wrong
 */
export function matchingTotpStep(secret: string, code: string, now: number): number | null {
  if (!/^[0-9]{6}$/.test(code)) return null;
  const delta = TOTP.validate({
    token: code,
    secret: Secret.fromBase32(secret),
    algorithm,
    digits,
    period,
    timestamp: now,
    window: 1,
  });
  return delta === null ? null : TOTP.counter({ period, timestamp: now }) + delta;
}
