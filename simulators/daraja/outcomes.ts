// Which phone numbers do what: the last four digits of the paying phone choose the outcome.

export type ResultCode = number | string;

export type Outcome = {
  /** The result of the prompt once it is decided; 0 is paid. */
  resultCode: ResultCode;
  /** How often the callback about it is sent. */
  callbacks: 0 | 1 | 3;
  /** `before`: only after the callback has been answered. `lost`: the connection breaks without an answer. */
  pushAnswer: 'normal' | 'before' | 'lost' | 'refused';
  /** The callback names another amount than the one that was paid. */
  namesWrongAmount: boolean;
  /** Whether the payment is confirmed as money that came in, where addresses are registered for that. */
  isConfirmed: boolean;
  /** A success follows the failure. */
  succeedsLate: boolean;
};

const PAID: Outcome = {
  resultCode: 0,
  callbacks: 1,
  pushAnswer: 'normal',
  namesWrongAmount: false,
  isConfirmed: true,
  succeedsLate: false,
};

/** Every scripted ending with its sentence for the index page. */
export const scriptedOutcomes: { ending: string; tells: string; outcome: Outcome }[] = [
  { ending: '0001', tells: 'Insufficient balance (result 1)', outcome: { ...PAID, resultCode: 1 } },
  {
    ending: '1001',
    tells: 'Another M-PESA session is open on the phone (result 1001)',
    outcome: { ...PAID, resultCode: 1001 },
  },
  { ending: '1019', tells: 'The transaction expired (result 1019)', outcome: { ...PAID, resultCode: 1019 } },
  {
    ending: '1025',
    tells: 'The prompt could not be sent (result 1025)',
    outcome: { ...PAID, resultCode: 1025 },
  },
  {
    ending: '1032',
    tells: 'Cancelled on the phone (result 1032)',
    outcome: { ...PAID, resultCode: 1032 },
  },
  {
    ending: '1037',
    tells: 'The phone cannot be reached (result 1037)',
    outcome: { ...PAID, resultCode: 1037 },
  },
  { ending: '2001', tells: 'Wrong PIN (result 2001)', outcome: { ...PAID, resultCode: 2001 } },
  {
    ending: '9001',
    tells: 'Paid, but the callback never comes: only a query tells',
    outcome: { ...PAID, callbacks: 0, isConfirmed: false },
  },
  { ending: '9002', tells: 'Paid, and the callback comes three times', outcome: { ...PAID, callbacks: 3 } },
  {
    ending: '9003',
    tells: 'Paid, and the callback comes before the push is answered',
    outcome: { ...PAID, pushAnswer: 'before' },
  },
  {
    ending: '9004',
    tells: 'Paid, but the answer to the push is lost',
    outcome: { ...PAID, pushAnswer: 'lost' },
  },
  {
    ending: '9005',
    tells: 'Paid, but the callback names a wrong amount',
    outcome: { ...PAID, namesWrongAmount: true, isConfirmed: false },
  },
  {
    ending: '9006',
    tells: 'First unreachable (result 1037), some time later paid after all',
    outcome: { ...PAID, resultCode: 1037, succeedsLate: true },
  },
  {
    ending: '9007',
    tells: 'The push is refused (HTTP 500, 500.001.1001)',
    outcome: { ...PAID, pushAnswer: 'refused' },
  },
];

const outcomeByEnding = new Map(scriptedOutcomes.map(({ ending, outcome }) => [ending, outcome]));

/** The outcome for a phone written as 254 and nine digits: paid, unless its ending says otherwise. */
export function outcomeFor(phone: string): Outcome {
  return outcomeByEnding.get(phone.slice(-4)) ?? PAID;
}
