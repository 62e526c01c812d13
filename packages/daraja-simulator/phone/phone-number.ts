// Daraja's phone numbers are 254 and nine digits; people write them in other ways.

/** `254712345678` for 07…, 7…, 254… and +254… spellings (01 alike); null when it is not a Kenyan mobile number. */
export function readPhoneNumber(written: string): string | null {
  const digits = written.replace(/[\s()-]/g, '').replace(/^\+/, '');
  const parts = /^(?:254|0)?([17]\d{8})$/.exec(digits);
  return parts ? `254${parts[1]}` : null;
}

/** `0712 345 678`, as written in Kenya. */
export function writePhoneNumber(phone: string): string {
  return phone.replace(/^254(\d{3})(\d{3})(\d{3})$/, '0$1 $2 $3');
}
