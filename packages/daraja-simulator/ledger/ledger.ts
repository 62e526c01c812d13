// The simulator's state: every push, its decisions and messages, and all incoming and returned money.
import type {
  CallbackDelivered,
  FaultStruck,
  LedgerEntry,
  LineAdded,
  MaintenanceSet,
  MessageDelivered,
  MessagePlanned,
  PaymentDeclined,
  PaymentMade,
  PlannedCallback,
  PromptDecided,
  PushAccepted,
  PushRefused,
  RequestDecided,
  RequestRefused,
  RequestTaken,
  StatementRegistered,
  UrlsRegistered,
} from './ledger-entries.ts';
import { openLedgerFile } from './ledger-file.ts';
import { payerNameOf } from './payer-name.ts';

export type Prompt = {
  push: PushAccepted;
  /** Empty while the prompt is open; two when a success followed a failure. */
  decisions: PromptDecided[];
  deliveries: CallbackDelivered[];
};

/** Received money, with or without a prompt. */
export type Transaction = {
  receipt: string;
  at: number;
  /** Whole shillings. */
  amount: number;
  phone: string;
  payerName: string;
  method: 'prompt' | 'till' | 'paybill';
  /** The till or paybill it went to. */
  number: string;
  reference: string;
  /** Null for payments without a prompt. */
  checkoutRequestId: string | null;
  reversal: { receipt: string; at: number; amount: number } | null;
};

export type InitiatedRequest = { taken: RequestTaken; decided: RequestDecided | null };
export type OutgoingMessage = { planned: MessagePlanned; delivered: MessageDelivered | null };

export type Ledger = {
  /** Applies the entry at once; resolves when it is durable. */
  write(entry: LedgerEntry): Promise<void>;
  /** Resolves when everything applied so far is durable. */
  durable(): Promise<void>;
  find(checkoutRequestId: string): Prompt | undefined;
  /** All prompts of a phone, oldest first. */
  ofPhone(phone: string): readonly Prompt[];
  prompts(): Iterable<Prompt>;
  refusals(): readonly PushRefused[];
  /** All incoming money, oldest first. */
  transactions(): readonly Transaction[];
  transaction(receipt: string): Transaction | undefined;
  payments(): readonly PaymentMade[];
  declined(): readonly PaymentDeclined[];
  addedLines(): readonly LineAdded[];
  urls(): UrlsRegistered | null;
  statement(): StatementRegistered | null;
  requests(): Iterable<InitiatedRequest>;
  /** By the conversation's id or its originator's. */
  request(conversationId: string): InitiatedRequest | undefined;
  messages(): Iterable<OutgoingMessage>;
  requestRefusals(): readonly RequestRefused[];
  maintenance(): MaintenanceSet | null;
  faultsStruck(): readonly FaultStruck[];
  tokensMade(): number;
  hasReceipt(receipt: string): boolean;
  /** Received whole shillings. */
  moneyMoved(): number;
  moneyReturned(): number;
  clockAdvancedMs(): number;
  empty(): Promise<void>;
  close(): Promise<void>;
};

/** Opens the ledger in this file, or in memory when the path is null. */
export async function openLedger(path: string | null): Promise<Ledger> {
  const prompts = new Map<string, Prompt>();
  const promptsByPhone = new Map<string, Prompt[]>();
  const receipts = new Set<string>();
  const transactions = new Map<string, Transaction>();
  const requests = new Map<string, InitiatedRequest>();
  const messages = new Map<string, OutgoingMessage>();
  let refusals: PushRefused[] = [];
  let payments: PaymentMade[] = [];
  let declined: PaymentDeclined[] = [];
  let requestRefusals: RequestRefused[] = [];
  let urls: UrlsRegistered | null = null;
  let statement: StatementRegistered | null = null;
  let maintenance: MaintenanceSet | null = null;
  let addedLines: LineAdded[] = [];
  let faultsStruck: FaultStruck[] = [];
  let tokensMade = 0;
  let moneyMoved = 0;
  let moneyReturned = 0;
  let clockAdvancedMs = 0;

  function apply(entry: LedgerEntry): void {
    switch (entry.kind) {
      case 'push accepted': {
        const prompt: Prompt = { push: entry, decisions: [], deliveries: [] };
        prompts.set(entry.checkoutRequestId, prompt);
        const ofPhone = promptsByPhone.get(entry.phone);
        if (ofPhone) ofPhone.push(prompt);
        else promptsByPhone.set(entry.phone, [prompt]);
        break;
      }
      case 'push refused':
        refusals.push(entry);
        break;
      case 'prompt decided': {
        const prompt = prompts.get(entry.checkoutRequestId);
        prompt?.decisions.push(entry);
        if (entry.receipt !== null && prompt) receive(transactionOfPrompt(prompt.push, entry, entry.receipt));
        break;
      }
      case 'callback delivered':
        prompts.get(entry.checkoutRequestId)?.deliveries.push(entry);
        break;
      case 'clock advanced':
        clockAdvancedMs += entry.byMs;
        break;
      case 'urls registered':
        urls = entry;
        break;
      case 'statement registered':
        statement = entry;
        break;
      case 'payment made':
        payments.push(entry);
        receive({ ...entry, checkoutRequestId: null, reversal: null });
        break;
      case 'payment declined':
        declined.push(entry);
        break;
      case 'payment reversed': {
        const reversed = transactions.get(entry.receipt);
        if (!reversed) break;
        receipts.add(entry.reversalReceipt);
        reversed.reversal = { receipt: entry.reversalReceipt, at: entry.at, amount: reversed.amount };
        moneyReturned += reversed.amount;
        break;
      }
      case 'line added':
        addedLines.push(entry);
        break;
      case 'request taken':
        requests.set(entry.conversationId, { taken: entry, decided: null });
        break;
      case 'request decided': {
        const request = requests.get(entry.conversationId);
        if (!request) break;
        request.decided = entry;
        const reversed = transactions.get(request.taken.receipt);
        if (entry.receipt === null || !reversed) break;
        receipts.add(entry.receipt);
        reversed.reversal = { receipt: entry.receipt, at: entry.at, amount: entry.moneyReturned };
        moneyReturned += entry.moneyReturned;
        break;
      }
      case 'message planned':
        messages.set(entry.id, { planned: entry, delivered: null });
        break;
      case 'message delivered': {
        const message = messages.get(entry.id);
        if (message) message.delivered = entry;
        break;
      }
      case 'request refused':
        requestRefusals.push(entry);
        break;
      case 'maintenance set':
        maintenance = entry;
        break;
      case 'token made':
        tokensMade += 1;
        break;
      case 'fault struck':
        faultsStruck.push(entry);
        break;
    }
  }

  function receive({
    receipt,
    at,
    amount,
    phone,
    payerName,
    method,
    number,
    reference,
    ...rest
  }: Transaction) {
    const { checkoutRequestId, reversal } = rest;
    receipts.add(receipt);
    moneyMoved += amount;
    const existing = {
      receipt,
      at,
      amount,
      phone,
      payerName,
      method,
      number,
      reference,
      checkoutRequestId,
      reversal,
    };
    transactions.set(receipt, existing);
  }

  const opened = path === null ? null : await openLedgerFile(path);
  for (const entry of opened?.entries ?? []) apply(entry);

  return {
    async write(entry) {
      apply(entry);
      await opened?.file.append(entry);
    },
    durable: async () => opened?.file.written(),
    find: (checkoutRequestId) => prompts.get(checkoutRequestId),
    ofPhone: (phone) => promptsByPhone.get(phone) ?? [],
    prompts: () => prompts.values(),
    refusals: () => refusals,
    transactions: () => [...transactions.values()],
    transaction: (receipt) => transactions.get(receipt),
    payments: () => payments,
    declined: () => declined,
    addedLines: () => addedLines,
    urls: () => urls,
    statement: () => statement,
    requests: () => requests.values(),
    request: (id) =>
      requests.get(id) ?? [...requests.values()].find(({ taken }) => taken.originatorConversationId === id),
    messages: () => messages.values(),
    requestRefusals: () => requestRefusals,
    maintenance: () => maintenance,
    faultsStruck: () => faultsStruck,
    tokensMade: () => tokensMade,
    hasReceipt: (receipt) => receipts.has(receipt),
    moneyMoved: () => moneyMoved,
    moneyReturned: () => moneyReturned,
    clockAdvancedMs: () => clockAdvancedMs,
    async empty() {
      prompts.clear();
      promptsByPhone.clear();
      receipts.clear();
      transactions.clear();
      requests.clear();
      messages.clear();
      refusals = [];
      payments = [];
      declined = [];
      addedLines = [];
      requestRefusals = [];
      urls = null;
      statement = null;
      maintenance = null;
      faultsStruck = [];
      tokensMade = 0;
      moneyMoved = 0;
      moneyReturned = 0;
      clockAdvancedMs = 0;
      await opened?.file.empty();
    },
    async close() {
      await opened?.file.close();
    },
  };
}

function transactionOfPrompt(push: PushAccepted, decided: PromptDecided, receipt: string): Transaction {
  return {
    receipt,
    at: decided.at,
    amount: decided.moneyMoved,
    phone: push.phone,
    payerName: payerNameOf(push.phone),
    method: 'prompt',
    number: push.partyB,
    reference: push.accountReference,
    checkoutRequestId: push.checkoutRequestId,
    reversal: null,
  };
}

/** The decision that counts: a success if there is one, otherwise the last one. */
export function currentDecision(prompt: Prompt): PromptDecided | undefined {
  return prompt.decisions.find((decision) => decision.resultCode === 0) ?? prompt.decisions.at(-1);
}

/** Planned callbacks that are neither delivered nor dropped. */
export function outstandingCallbacks(prompt: Prompt): PlannedCallback[] {
  const delivered = new Set(prompt.deliveries.map((delivery) => delivery.ordinal));
  return prompt.decisions
    .flatMap((decision) => decision.callbacks)
    .filter((callback) => !callback.isDropped && !delivered.has(callback.ordinal));
}
