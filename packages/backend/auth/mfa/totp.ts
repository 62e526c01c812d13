// Codes of an authenticator app (RFC 6238): creates secrets and verifies codes.
import { Secret, TOTP } from 'otpauth';

const algorithm = 'SHA1';
const digits = 6;
const period = 30;

/** Data for an authenticator app, in three forms. */
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
 * @param issuer shown in the app
 * @param account shown in the app
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
    // Clients embed the SVG in a data URI, which a hash sign would end.
    qrCode: drawing.replaceAll('#ffffff', 'white').replaceAll('#000000', 'black').trim(),
  };
}

/**
 * Finds the time step of a code: the current one, the previous or the next.
 * @param secret base32
 * @param code as typed; anything but six digits matches nothing
 * @param now milliseconds since the epoch
 * @returns the step (seconds since the epoch / 30), which the caller must store so that a code is accepted once (RFC 6238,
 *   5.2); null when the code is wrong
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
