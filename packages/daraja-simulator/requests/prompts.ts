// Prompts: opened by a push, decided once by script, user or timeout, then reported to the shop.
import { randomInt } from 'node:crypto';
import type { Faults } from '../faults/faults.ts';
import { spell } from '../faults/spellings.ts';
import type { SimulatorClock } from '../ledger/clock.ts';
import { type Ledger, outstandingCallbacks, type Prompt } from '../ledger/ledger.ts';
import type { PlannedCallback, PromptDecided, PushAccepted } from '../ledger/ledger-entries.ts';
import { nairobiTime } from '../ledger/nairobi-time.ts';
import { drawReceipt } from '../ledger/receipt.ts';
import type { Screens } from '../phone/screens.ts';
import type { SimulatorSettings } from '../settings.ts';
import { type CallbackDelivery, writeCallbackBody } from './callbacks.ts';
import { confirm } from './confirmations.ts';
import { drawRequestId } from './daraja-errors.ts';
import { outcomeFor, type ResultCode } from './outcomes.ts';
import type { OutgoingMessages } from './outgoing-messages.ts';
import type { PushRequest } from './push-request.ts';

const WRONG_PIN = '0000';
/** M-PESA's rule: the same amount from one phone once within this time. */
const REPEAT_RULE_MS = 120_000;

export type Prompts = {
  /** Opens a prompt and resolves when it is in the ledger. It stays undecided until `scheduleDecision` or `decideNow`. */
  open(push: PushRequest): Promise<Prompt>;
  /** The undecided prompt of a phone; there is at most one. */
  openPromptOf(phone: string): Prompt | undefined;
  /** The script decides after the delay, unless a phone page is open. */
  scheduleDecision(prompt: Prompt): void;
  /** The script decides at once; resolves when its callbacks have been answered. */
  decideNow(prompt: Prompt): Promise<void>;
  /** The person enters a PIN (a phone page applies the rule of repeated amounts) or declines; resolves to the decision, or null when the prompt was no longer open. */
  enterPin(prompt: Prompt, pin: string, appliesRepeatRule?: boolean): Promise<PromptDecided | null>;
  decline(prompt: Prompt): Promise<PromptDecided | null>;
  /** After a restart: decides open prompts and sends unsent callbacks. */
  resume(): void;
  reset(): void;
};

type Decision = {
  resultCode: ResultCode;
  decidedBy: PromptDecided['decidedBy'];
  /** Whether the rest of the phone's script (late success, lost callbacks …) applies. */
  followsScript: boolean;
};

export function createPrompts(dependencies: {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  faults: Faults;
  screens: Screens;
  delivery: CallbackDelivery;
  outgoing: OutgoingMessages;
}): Prompts {
  const { settings, clock, ledger, faults, screens, delivery } = dependencies;
  const scheduled = new Map<string, () => void>();

  function schedule(prompt: Prompt, moment: number, work: () => void | Promise<void>): void {
    const id = prompt.push.checkoutRequestId;
    scheduled.get(id)?.();
    scheduled.set(id, clock.at(moment, work));
  }

  /** Records the decision; null when the prompt is already decided. */
  async function decide(prompt: Prompt, decision: Decision): Promise<PromptDecided | null> {
    if (prompt.decisions.length > 0) return null;
    const { succeedsLate } = outcomeFor(prompt.push.phone);
    const lateSuccessAt =
      decision.followsScript && succeedsLate ? clock.now() + settings.lateSuccessDelayMs : null;
    return record(prompt, decision, lateSuccessAt);
  }

  async function record(
    prompt: Prompt,
    { resultCode, decidedBy }: Decision,
    lateSuccessAt: number | null,
  ): Promise<PromptDecided> {
    const { push } = prompt;
    const at = clock.now();
    const isPaid = resultCode === 0;
    const receipt = isPaid ? drawReceipt(at, ledger.hasReceipt) : null;
    const decided: PromptDecided = {
      kind: 'prompt decided',
      at,
      checkoutRequestId: push.checkoutRequestId,
      resultCode,
      decidedBy,
      receipt,
      moneyMoved: isPaid ? push.amount : 0,
      lateSuccessAt,
      callbacks: planCallbacks(prompt, { at, resultCode, receipt }),
    };
    scheduled.get(push.checkoutRequestId)?.();
    scheduled.delete(push.checkoutRequestId);
    const written = ledger.write(decided);
    const transaction = ledger.transaction(receipt ?? '');
    const isConfirmed = outcomeFor(push.phone).isConfirmed;
    await Promise.all([written, transaction && confirm(transaction, dependencies, !isConfirmed)]);
    if (lateSuccessAt !== null) schedule(prompt, lateSuccessAt, () => succeedLate(prompt));
    return decided;
  }

  function planCallbacks(
    prompt: Prompt,
    decision: { at: number; resultCode: ResultCode; receipt: string | null },
  ): PlannedCallback[] {
    const { push } = prompt;
    const outcome = outcomeFor(push.phone);
    const isPaid = decision.resultCode === 0;
    const wrongAmount = push.amount > 1 ? push.amount - 1 : push.amount + 1;
    const fault = faults.takeMessageFault('callbacks');
    const written = writeCallbackBody(
      push,
      isPaid && fault?.kind === 'contradict' ? { ...decision, resultCode: fault.resultCode } : decision,
      isPaid && outcome.namesWrongAmount ? wrongAmount : push.amount,
    );
    const body =
      fault?.kind === 'spell' ? JSON.stringify(spell(JSON.parse(written), fault.spelling)) : written;
    const scriptedTimes = isPaid ? outcome.callbacks : 1;
    const times = fault?.kind === 'duplicate' ? fault.times : Math.max(scriptedTimes, 1);
    const sentBefore = prompt.decisions.flatMap((earlier) => earlier.callbacks).length;
    return Array.from({ length: times }, (_, index) => ({
      ordinal: sentBefore + index + 1,
      dueAt: decision.at + (fault?.kind === 'delay' ? fault.delayMs : 0),
      body,
      isDropped: fault?.kind === 'drop' || scriptedTimes === 0,
    }));
  }

  async function sendCallbacks(prompt: Prompt, callbacks: PlannedCallback[]): Promise<void> {
    const deliveries = callbacks
      .filter((callback) => !callback.isDropped)
      .map((callback) => {
        if (callback.dueAt <= clock.now()) return delivery.deliver(prompt, callback);
        clock.at(callback.dueAt, () => delivery.deliver(prompt, callback));
        return undefined;
      });
    await Promise.all(deliveries);
  }

  async function decideAndSend(prompt: Prompt, decision: Decision): Promise<void> {
    const decided = await decide(prompt, decision);
    if (decided) await sendCallbacks(prompt, decided.callbacks);
  }

  async function succeedLate(prompt: Prompt): Promise<void> {
    const decided = await record(prompt, { resultCode: 0, decidedBy: 'script', followsScript: true }, null);
    await sendCallbacks(prompt, decided.callbacks);
  }

  function scriptedDecision({ push }: Prompt, repeatRuleMs = settings.repeatRuleMs): Decision {
    const overruled = overrulingCode(push, repeatRuleMs);
    return {
      resultCode: overruled ?? outcomeFor(push.phone).resultCode,
      decidedBy: 'script',
      followsScript: overruled === null,
    };
  }

  /** Errors that M-PESA reports whatever the phone's script is. */
  function overrulingCode(push: PushAccepted, repeatRuleMs: number): ResultCode | null {
    const older = ledger.ofPhone(push.phone).find((prompt) => prompt.decisions.length === 0);
    if (isWrongReceiver(push, settings)) return 'SFC_IC0003';
    if (settings.onlyPhone !== null && push.phone !== settings.onlyPhone) return 'E3008';
    if (older && older.push.checkoutRequestId !== push.checkoutRequestId) return 1001;
    return isRepeat(push, repeatRuleMs) ? 17 : null;
  }

  /** The same amount from the same phone, paid again too soon (result 17). */
  function isRepeat(push: PushAccepted, repeatRuleMs: number): boolean {
    if (repeatRuleMs === 0) return false;
    return ledger
      .ofPhone(push.phone)
      .flatMap((prompt) => prompt.decisions)
      .some((decision) => decision.moneyMoved === push.amount && push.at - decision.at < repeatRuleMs);
  }

  /** After the delay: the script decides, or an open phone page gets the rest of the timeout. */
  function decideOrWait(prompt: Prompt): Promise<void> | undefined {
    if (!screens.isOpen(prompt.push.phone)) return decideAndSend(prompt, scriptedDecision(prompt));
    schedule(prompt, prompt.push.at + settings.promptTimeoutMs, () =>
      decideAndSend(prompt, { resultCode: 1037, decidedBy: 'timeout', followsScript: false }),
    );
    return undefined;
  }

  async function decideByPerson(prompt: Prompt, decision: Decision): Promise<PromptDecided | null> {
    const decided = await decide(prompt, decision);
    if (decided) sendCallbacks(prompt, decided.callbacks).catch((problem: unknown) => console.error(problem));
    return decided;
  }

  return {
    async open(request) {
      const at = clock.now();
      const push: PushAccepted = {
        kind: 'push accepted',
        at,
        checkoutRequestId: drawCheckoutRequestId(at, request.phone, ledger),
        merchantRequestId: drawRequestId(),
        ...request,
      };
      const written = ledger.write(push);
      const prompt = ledger.find(push.checkoutRequestId);
      await written;
      if (!prompt) throw new Error(`The prompt ${push.checkoutRequestId} is not in the ledger.`);
      return prompt;
    },
    openPromptOf: (phone) => ledger.ofPhone(phone).find((prompt) => prompt.decisions.length === 0),
    scheduleDecision(prompt) {
      schedule(prompt, prompt.push.at + settings.decisionDelayMs, () => decideOrWait(prompt));
    },
    decideNow: (prompt) => decideAndSend(prompt, scriptedDecision(prompt)),
    enterPin(prompt, pin, appliesRepeatRule = false) {
      const repeatRuleMs = Math.max(settings.repeatRuleMs, appliesRepeatRule ? REPEAT_RULE_MS : 0);
      const decision: Decision =
        pin === WRONG_PIN
          ? { resultCode: 2001, decidedBy: 'person', followsScript: false }
          : { ...scriptedDecision(prompt, repeatRuleMs), decidedBy: 'person' };
      return decideByPerson(prompt, decision);
    },
    decline: (prompt) =>
      decideByPerson(prompt, { resultCode: 1032, decidedBy: 'person', followsScript: false }),
    resume() {
      for (const prompt of ledger.prompts()) {
        const lateSuccessAt = prompt.decisions.length === 1 ? prompt.decisions[0]?.lateSuccessAt : null;
        if (prompt.decisions.length === 0) {
          // An open phone page needs a moment to reconnect.
          schedule(prompt, clock.now() + settings.decisionDelayMs, () => decideOrWait(prompt));
        } else if (typeof lateSuccessAt === 'number') {
          schedule(prompt, lateSuccessAt, () => succeedLate(prompt));
        }
        for (const callback of outstandingCallbacks(prompt)) {
          clock.at(callback.dueAt, () => delivery.deliver(prompt, callback));
        }
      }
    },
    reset() {
      for (const cancel of scheduled.values()) cancel();
      scheduled.clear();
    },
  };
}

/** PartyB is the shortcode for a paybill, and the till's number for a till; the sandbox also accepts the shortcode for a till. */
function isWrongReceiver({ transactionType, partyB, shortcode }: PushAccepted, settings: SimulatorSettings) {
  const isTill = transactionType === 'CustomerBuyGoodsOnline' && partyB === settings.tillNumber;
  return partyB !== shortcode && !isTill;
}

/** `ws_CO_`, the Nairobi time to the millisecond, and the phone without its country code. */
function drawCheckoutRequestId(at: number, phone: string, ledger: Ledger): string {
  const { year, month, day, hour, minute, second, millisecond } = nairobiTime(at);
  const time = `${day}${month}${year}${hour}${minute}${second}`;
  let checkoutRequestId = `ws_CO_${time}${millisecond}${phone.slice(3)}`;
  while (ledger.find(checkoutRequestId)) {
    checkoutRequestId = `ws_CO_${time}${String(randomInt(1000)).padStart(3, '0')}${phone.slice(3)}`;
  }
  return checkoutRequestId;
}
