// Other ways in which M-PESA writes receipts, amounts and times, and some that mean nothing.
import { nairobiTime } from '../ledger/nairobi-time.ts';

type Value = string | number;

const receipts = {
  'receipt-small': (text: string) => text.toLowerCase(),
  'receipt-blanks': (text: string) => ` ${text.slice(0, 4)} ${text.slice(4)} `,
  'receipt-wide': (text: string) =>
    text.replace(/[A-Z0-9]/g, (character) => String.fromCharCode(character.charCodeAt(0) + 0xfee0)),
  'receipt-unreadable': (text: string) => text.slice(0, 6),
};

const grouped = (shillings: number) => shillings.toFixed(2).replace(/\B(?=(\d{3})+\.)/g, ',');
const amounts = {
  'amount-groups': grouped,
  'amount-currency': (shillings: number) => `KES ${grouped(shillings)}`,
  'amount-whole': (shillings: number) => String(shillings),
  'amount-unreadable': (shillings: number) => shillings.toFixed(2).replace('.', ','),
};

const monthNames = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');
type Moment = ReturnType<typeof nairobiTime>;
const clockOf = ({ hour, minute, second }: Moment) => `${hour}:${minute}:${second}`;
const times = {
  'time-day-first': (at: Moment) => `${at.day}-${at.month}-${at.year} ${clockOf(at)}`,
  'time-dots': (at: Moment) => `${at.day}.${at.month}.${at.year} ${clockOf(at)}`,
  'time-twelve-hours': (at: Moment) =>
    `${at.day}-${at.month}-${at.year} ${Number(at.hour) % 12 || 12}:${at.minute}:${at.second} ${Number(at.hour) < 12 ? 'AM' : 'PM'}`,
  'time-month-name': (at: Moment) =>
    `${monthNames[Number(at.month) - 1]} ${Number(at.day)}, ${at.year} ${clockOf(at)}`,
  'time-unreadable': (at: Moment) => `${at.day}/${at.month}/${at.year.slice(2)}`,
};

export type Spelling = keyof typeof receipts | keyof typeof amounts | keyof typeof times;
export const spellings = [
  ...Object.keys(receipts),
  ...Object.keys(amounts),
  ...Object.keys(times),
] as Spelling[];

const receiptFields = new Set([
  'TransID',
  'MpesaReceiptNumber',
  'transactionId',
  'TransactionID',
  'ReceiptNo',
]);
const amountFields = new Set(['TransAmount', 'Amount', 'amount']);
const timeFields = new Set(['TransTime', 'TransactionDate', 'trxDate', 'FinalisedTime']);

/** Writes the receipts, amounts or times of a message or a statement line in another way. */
export function spell(json: unknown, spelling: Spelling): unknown {
  if (Array.isArray(json)) return json.map((entry) => spell(entry, spelling));
  if (typeof json !== 'object' || json === null) return json;
  // Metadata of callbacks and parameters of results: {Name, Value} and {Key, Value}.
  const { Name, Key, Value } = json as Record<string, unknown>;
  const name = Name ?? Key;
  if (typeof name === 'string' && Value !== undefined)
    return { ...json, Value: write(name, Value, spelling) };
  return Object.fromEntries(
    Object.entries(json).map(([field, value]) => [
      field,
      typeof value === 'object' ? spell(value, spelling) : write(field, value, spelling),
    ]),
  );
}

function write(field: string, value: unknown, spelling: Spelling): unknown {
  if (typeof value !== 'string' && typeof value !== 'number') return value;
  if (spelling in receipts && receiptFields.has(field))
    return receipts[spelling as keyof typeof receipts](String(value));
  if (spelling in amounts && amountFields.has(field))
    return amounts[spelling as keyof typeof amounts](Number(value));
  if (spelling in times && timeFields.has(field))
    return times[spelling as keyof typeof times](nairobiTime(epochOf(value)));
  return value;
}

/** Of `20261121145800` in Nairobi, or of an ISO time. */
function epochOf(value: Value): number {
  const digits = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/.exec(String(value));
  return Date.parse(
    digits ? `${digits.slice(1, 4).join('-')}T${digits.slice(4).join(':')}+03:00` : String(value),
  );
}
