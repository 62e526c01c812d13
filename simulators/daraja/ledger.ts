// The truth of the simulator: every push, its decisions, the callbacks about it and the money that moved.
import type {
  CallbackDelivered,
  LedgerEntry,
  PlannedCallback,
  PromptDecided,
  PushAccepted,
  PushRefused,
} from './ledger-entries.ts';
import { openLedgerFile } from './ledger-file.ts';

export type Prompt = {
  push: PushAccepted;
  /** Empty while the prompt is open; two when a success followed a failure. */
  decisions: PromptDecided[];
  deliveries: CallbackDelivered[];
};

export type Ledger = {
  /** The entry counts at once; the promise resolves when it is durable. */
  write(entry: LedgerEntry): Promise<void>;
  find(checkoutRequestId: string): Prompt | undefined;
  /** All prompts of a phone, oldest first. */
  ofPhone(phone: string): readonly Prompt[];
  prompts(): Iterable<Prompt>;
  refusals(): readonly PushRefused[];
  hasReceipt(receipt: string): boolean;
  /** Whole shillings over all prompts. */
  moneyMoved(): number;
  clockAdvancedMs(): number;
  empty(): Promise<void>;
  close(): Promise<void>;
};

/** Opens the ledger in this file, or one in memory only. */
export async function openLedger(path: string | null): Promise<Ledger> {
  const prompts = new Map<string, Prompt>();
  const promptsByPhone = new Map<string, Prompt[]>();
  const receipts = new Set<string>();
  let refusals: PushRefused[] = [];
  let moneyMoved = 0;
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
      case 'prompt decided':
        prompts.get(entry.checkoutRequestId)?.decisions.push(entry);
        if (entry.receipt !== null) receipts.add(entry.receipt);
        moneyMoved += entry.moneyMoved;
        break;
      case 'callback delivered':
        prompts.get(entry.checkoutRequestId)?.deliveries.push(entry);
        break;
      case 'clock advanced':
        clockAdvancedMs += entry.byMs;
        break;
    }
  }

  const opened = path === null ? null : await openLedgerFile(path);
  for (const entry of opened?.entries ?? []) apply(entry);

  return {
    async write(entry) {
      apply(entry);
      await opened?.file.append(entry);
    },
    find: (checkoutRequestId) => prompts.get(checkoutRequestId),
    ofPhone: (phone) => promptsByPhone.get(phone) ?? [],
    prompts: () => prompts.values(),
    refusals: () => refusals,
    hasReceipt: (receipt) => receipts.has(receipt),
    moneyMoved: () => moneyMoved,
    clockAdvancedMs: () => clockAdvancedMs,
    async empty() {
      prompts.clear();
      promptsByPhone.clear();
      receipts.clear();
      refusals = [];
      moneyMoved = 0;
      clockAdvancedMs = 0;
      await opened?.file.empty();
    },
    async close() {
      await opened?.file.close();
    },
  };
}

/** What counts about a prompt: its success if there is one, else its last decision, else nothing yet. */
export function standingDecision(prompt: Prompt): PromptDecided | undefined {
  return prompt.decisions.find((decision) => decision.resultCode === 0) ?? prompt.decisions.at(-1);
}

/** Callbacks that are planned but neither delivered nor lost. */
export function outstandingCallbacks(prompt: Prompt): PlannedCallback[] {
  const delivered = new Set(prompt.deliveries.map((delivery) => delivery.ordinal));
  return prompt.decisions
    .flatMap((decision) => decision.callbacks)
    .filter((callback) => !callback.isDropped && !delivered.has(callback.ordinal));
}
