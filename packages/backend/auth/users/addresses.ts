// Normalises email addresses and phone numbers to the stored form.
import { AuthError, invalid } from '../auth-error.ts';

/** Normalises an email address: lower case. @throws AuthError validation_failed */
export function mailAddress(input: string): string {
  // RFC 5321 lengths, and a shape that every mail server accepts; only an email can show whether it exists.
  const address = input.length <= 1000 ? input.trim().toLowerCase() : '';
  const [local = '', domain = ''] = address.split(/@(?=[^@]*$)/);
  const isMeant =
    address.length <= 254 &&
    local.length <= 64 &&
    /^[^\s@"(),:;<>[\\\]\p{Cc}]+$/u.test(local) &&
    !/^\.|\.\.|\.$/.test(local) &&
    /^(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.)*[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u.test(
      domain,
    );
  if (!isMeant) throw invalid('Unable to validate email address: invalid format');
  return address;
}

/** Normalises a phone number: digits with country code, E.164 without `+`. @throws AuthError validation_failed */
export function phoneNumber(input: string): string {
  const digits = input.slice(0, 100).replace(/\s+/g, '').replace(/^\+/, '');
  if (!/^[1-9][0-9]{1,14}$/.test(digits)) throw invalid('Invalid phone number format (E.164 required)');
  return digits;
}

/** @throws AuthError validation_failed for a channel that does not exist */
export function textChannel(channel: string): 'sms' | 'whatsapp' {
  if (channel === '' || channel === 'sms') return 'sms';
  if (channel === 'whatsapp') return 'whatsapp';
  throw new AuthError(
    400,
    'validation_failed',
    "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or Twilio Verify is used as the provider.",
  );
}
