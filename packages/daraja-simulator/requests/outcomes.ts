// Outcome by phone number: the last four digits of the paying phone choose it.

export type ResultCode = number | string;

export type Outcome = {
  /** The result of the prompt once it is decided; 0 is paid. */
  resultCode: ResultCode;
  /** Number of callbacks. */
  callbacks: 0 | 1 | 3;
  /** `before`: only after the callback has been answered. `lost`: the connection breaks without an answer. */
  pushAnswer: 'normal' | 'before' | 'lost' | 'refused';
  /** The callback has another amount than was paid. */
  namesWrongAmount: boolean;
  /** Whether a C2B confirmation is sent (if URLs are registered). */
  isConfirmed: boolean;
  /** A success follows the failure later. */
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

/** Scripted number endings, described for the index page. */
export const scriptedOutcomes: { ending: string; description: string; outcome: Outcome }[] = [
  { ending: '0001', description: 'Insufficient balance (result 1)', outcome: { ...PAID, resultCode: 1 } },
  {
    ending: '1001',
    description: 'Another M-PESA session is open on the phone (result 1001)',
    outcome: { ...PAID, resultCode: 1001 },
  },
  {
    ending: '1019',
    description: 'The transaction expired (result 1019)',
    outcome: { ...PAID, resultCode: 1019 },
  },
  {
    ending: '1025',
    description: 'The prompt could not be sent (result 1025)',
    outcome: { ...PAID, resultCode: 1025 },
  },
  {
    ending: '1032',
    description: 'Cancelled on the phone (result 1032)',
    outcome: { ...PAID, resultCode: 1032 },
  },
  {
    ending: '1037',
    description: 'The phone cannot be reached (result 1037)',
    outcome: { ...PAID, resultCode: 1037 },
  },
  { ending: '2001', description: 'Wrong PIN (result 2001)', outcome: { ...PAID, resultCode: 2001 } },
  {
    ending: '9001',
    description: 'Paid, but the callback is never sent: only a query reports it',
    outcome: { ...PAID, callbacks: 0, isConfirmed: false },
  },
  {
    ending: '9002',
    description: 'Paid, and the callback is sent three times',
    outcome: { ...PAID, callbacks: 3 },
  },
  {
    ending: '9003',
    description: 'Paid, and the callback arrives before the response to the push',
    outcome: { ...PAID, pushAnswer: 'before' },
  },
  {
    ending: '9004',
    description: 'Paid, but the response to the push is lost',
    outcome: { ...PAID, pushAnswer: 'lost' },
  },
  {
    ending: '9005',
    description: 'Paid, but the callback has a wrong amount',
    outcome: { ...PAID, namesWrongAmount: true, isConfirmed: false },
  },
  {
    ending: '9006',
    description: 'First unreachable (result 1037), later paid',
    outcome: { ...PAID, resultCode: 1037, succeedsLate: true },
  },
  {
    ending: '9007',
    description: 'The push is refused (HTTP 500, 500.001.1001)',
    outcome: { ...PAID, pushAnswer: 'refused' },
  },
];

const outcomeByEnding = new Map(scriptedOutcomes.map(({ ending, outcome }) => [ending, outcome]));

/** Outcome for a phone number (254 and nine digits). Default: paid. */
export function outcomeFor(phone: string): Outcome {
  return outcomeByEnding.get(phone.slice(-4)) ?? PAID;
}
