// Times in the formats that Daraja takes, in Nairobi. Readers are in domain/mpesa/.
import { inNairobi } from '../../../../../domain/nairobi-time.ts';

/**
 * Formats a date as Daraja does: Nairobi time, which has no daylight saving.
 * @returns `YYYYMMDDHHmmss`
 */
export function darajaTimestamp(moment: Date): string {
  return inNairobi(moment.getTime()).toISOString().replace(/\D/g, '').slice(0, 14);
}

/**
 * Formats a date for the statement's period (Daraja, Pull Transactions), in Nairobi time.
 * @returns `YYYY-MM-DD HH:mm:ss`
 */
export function darajaDateTime(moment: Date): string {
  return inNairobi(moment.getTime()).toISOString().slice(0, 19).replace('T', ' ');
}
