// Describes the state of each part of the system.
import { formatCount } from '../../../domain/count.ts';
import { adviseOnResult } from '../../../domain/mpesa/result-advice.ts';
import type { BackupOutcome, OutboxMessageChannel } from '../../../supabase/types.ts';
import { describeLimitRaise } from '../payments-check/describe-limit-raise.ts';
import type { PaymentHealth } from '../payments-check/payment-health.ts';
import { entryOf, labelOf } from '../status/label-of.ts';

export type State = 'ok' | 'attention' | 'problem';

export interface Line {
  state: State;
  /** One or two words, such as 'Connected'. */
  value: string;
  /** The measured value, or advice. */
  detail: string;
}

/** Result of `system_status`. Times are ISO. */
export interface SystemStatus {
  checked_at: string;
  last_backup_at: string | null;
  last_backup_outcome: BackupOutcome | null;
  last_attempt_at: string | null;
  last_attempt_outcome: BackupOutcome | null;
  last_attempt_problem: string | null;
  last_payment_answer_at: string | null;
  overdue_payments: number;
  /** Creation of the first staff account. */
  opened_at: string | null;
  /** Since when prompts do not work; null while they do. */
  prompts_paused_since: string | null;
}

const [minute, hour] = [60_000, 3_600_000];
/** A day, plus the time that a backup takes. */
const backupAge = 26 * hour;
/** The first backup is made within minutes. */
const newShopMs = hour;
const slowMs = 1500;

/**
 * A past time in words.
 * @param ms its age; slightly negative values count as 0, because clocks differ
 */
export function ago(ms: number): string {
  if (ms < minute) return 'just now';
  const formatAgeInWords = (count: number, unit: string) => `${count} ${unit}${count === 1 ? '' : 's'} ago`;
  if (ms < hour) return formatAgeInWords(Math.floor(ms / minute), 'minute');
  if (ms < 48 * hour) return formatAgeInWords(Math.floor(ms / hour), 'hour');
  return formatAgeInWords(Math.floor(ms / (24 * hour)), 'day');
}

/** @param tookMs response time in this browser; null without a response */
export function describeDatabase(tookMs: number | null): Line {
  if (tookMs === null) {
    return { state: 'problem', value: 'No answer', detail: "We can't reach the database from here." };
  }
  const took = `Answered in ${formatCount(Math.max(1, Math.round(tookMs)))} ms`;
  return tookMs > slowMs
    ? { state: 'attention', value: 'Slow', detail: `${took}. The connection or the machine is busy.` }
    : { state: 'ok', value: 'Connected', detail: took };
}

/** @param isWell null when the service did not answer */
export function describeAuthentication(isWell: boolean | null): Line {
  return isWell
    ? { state: 'ok', value: 'Active', detail: 'Working' }
    : { state: 'problem', value: 'No answer', detail: "Staff can't sign in at the moment." };
}

const modes = {
  simulator: { value: 'Simulated', detail: 'No money moves' },
  sandbox: { value: 'Sandbox', detail: "M-PESA's test system, no money moves" },
  production: { value: 'Live', detail: 'M-PESA' },
} as const;

/**
 * @param status null when the database did not answer
 * @param health null when it is unknown
 */
export function describePayments(
  mode: keyof typeof modes,
  status: SystemStatus | null,
  health: PaymentHealth | null = null,
): Line {
  const { value, detail } = entryOf<keyof typeof modes, Pick<Line, 'value' | 'detail'>>(
    modes,
    mode,
    (words) => ({ value: words, detail: 'M-PESA' }),
  );
  if (health?.pause) {
    const { code, description, is_refused } = health.pause;
    const { what } = adviseOnResult(code, description, is_refused ? 'request' : 'result');
    return {
      state: 'problem',
      value: 'Paused',
      detail: `Customers get no prompts. ${what} See Settings, M-PESA check.`,
    };
  }
  if (status?.prompts_paused_since) {
    return {
      state: 'problem',
      value: 'Paused',
      detail: 'Customers get no prompts. See Settings, M-PESA check.',
    };
  }
  if (!status) return { state: 'attention', value, detail: "We can't see M-PESA's last answer right now." };
  const overdue = status.overdue_payments;
  if (overdue > 0) {
    return {
      state: 'attention',
      value,
      detail: `${overdue === 1 ? 'One prompt has' : `${overdue} prompts have`} been open for more than 5 minutes. We're checking with M-PESA.`,
    };
  }
  const lastAnswerAt = status.last_payment_answer_at;
  return {
    state: 'ok',
    value,
    detail: `${detail}. ${lastAnswerAt ? `Last answer ${between(lastAnswerAt, status)}` : 'No payments yet'}`,
  };
}

/** Result of `statement_status`. Times are ISO. */
export interface StatementFacts {
  checked_at: string;
  statement_registered_at: string | null;
  covered_until: string | null;
  problem: string | null;
  missed: readonly { starts_at: string; ends_at: string }[];
}

/** The statement is pulled every half hour; a few failed pulls are normal. */
const statementAge = 3 * hour;

/**
 * Describes a problem with M-PESA's statement, which reveals lost payments.
 * @param write formats a time
 * @returns null without a problem, or when the statement is not registered
 */
export function describeStatement(
  facts: StatementFacts | undefined,
  write: (iso: string) => string,
): Line | null {
  const [missed] = facts?.missed ?? [];
  if (missed) {
    return {
      state: 'problem',
      value: 'Gap',
      detail: `The statement from ${write(missed.starts_at)} to ${write(missed.ends_at)} is missing, because it was not read for more than 48 hours. Compare that time in M-PESA's portal.`,
    };
  }
  if (!facts?.statement_registered_at || !facts.covered_until) return null;
  if (Date.parse(facts.checked_at) - Date.parse(facts.covered_until) <= statementAge) return null;
  return {
    state: 'attention',
    value: 'Behind',
    detail: `Read until ${write(facts.covered_until)}. ${facts.problem ?? 'The shop tries again on its own'}`,
  };
}

/** Messages of M-PESA that staff must check; null when none waits. */
export function describeMessagesToCheck(facts: { to_check: number } | undefined): Line | null {
  if (!facts?.to_check) return null;
  const count = facts.to_check;
  return {
    state: 'attention',
    value: 'To check',
    detail: `${count === 1 ? 'One message' : `${count} messages`} of M-PESA can't be read or understood. See Reconciliation.`,
  };
}

/** Refunds that need staff; null when none does. */
export function describeRefunds(health: PaymentHealth): Line | null {
  const waiting = [
    health.refunds_to_approve > 0 && `${health.refunds_to_approve} to approve`,
    health.refunds_unknown > 0 && `${health.refunds_unknown} without a result from M-PESA`,
    health.refunds_stuck > 0 && `${health.refunds_stuck} not sent for more than 10 minutes`,
    health.refunds_sent_twice > 0 && `${health.refunds_sent_twice} sent back twice`,
  ].filter(Boolean);
  if (waiting.length === 0) {
    return health.limit_raise
      ? { state: 'attention', value: 'Limit raised', detail: describeLimitRaise(health.limit_raise) }
      : null;
  }
  return { state: 'attention', value: 'Waiting', detail: `${waiting.join(', ')}. See Orders.` };
}

/** Messages of one channel sent today (`message_budgets`). */
export interface MessageBudget {
  channel: OutboxMessageChannel;
  sent: number;
  /** Those of `sent` that visitors caused without paying. They may use half of the budget. */
  sent_without_priority: number;
  per_day: number;
  /** Messages of the last week that were not sent because of a limit or the budget, and still can be. */
  over_budget: number;
  /** Why the newest of them was not sent; null without any. */
  reason: string | null;
}

/** Share of a budget from which staff are warned. */
const warningShare = 0.8;
const channelNames: Record<OutboxMessageChannel, string> = { text: 'SMS', mail: 'mails' };
const channelsOf = (budgets: readonly MessageBudget[]): string =>
  budgets.map(({ channel }) => labelOf(channelNames, channel)).join(' and ');

/** @returns budgets that are used up today; a budget of 0 is switched off, not used up */
const usedUpBudgets = (budgets: readonly MessageBudget[]): MessageBudget[] =>
  budgets.filter(({ sent, per_day }) => per_day > 0 && sent >= per_day);

/**
 * SMS and mails sent today.
 * @param budgets SMS first; null when the database did not answer
 */
export function describeMessages(budgets: readonly MessageBudget[] | null): Line {
  if (!budgets) return { state: 'attention', value: 'Unknown', detail: "We can't reach the database." };
  const figures = budgets
    .map(
      ({ channel, sent, per_day }, index) =>
        `${labelOf(channelNames, channel)}${index === 0 ? ' today' : ''} ${formatCount(sent)} of ${formatCount(per_day)}`,
    )
    .join(', ');
  if (usedUpBudgets(budgets).length > 0) return { state: 'attention', value: 'Used up', detail: figures };
  const withheld = countWithheld(budgets);
  if (withheld > 0) {
    return {
      state: 'attention',
      value: `${formatCount(withheld)} withheld`,
      detail: `${figures}. ${reasonsOf(budgets)}`,
    };
  }
  if (budgets.some(({ sent, per_day }) => per_day > 0 && sent >= per_day * warningShare)) {
    return { state: 'attention', value: 'Nearly used up', detail: figures };
  }
  const half = budgets.filter(
    ({ sent_without_priority, per_day }) => per_day > 0 && sent_without_priority >= Math.floor(per_day / 2),
  );
  return half.length > 0
    ? {
        state: 'attention',
        value: 'Half used up',
        detail: `${figures}. Visitors who have not paid have used their half of the ${channelsOf(half)}; messages about paid orders are still sent`,
      }
    : { state: 'ok', value: 'Within budget', detail: figures };
}

/**
 * @returns title and text of the notice while a budget is used up or messages are withheld, or null. isUsedUp: a larger budget
 * would help
 */
export function describeWithheld(
  budgets: readonly MessageBudget[],
): { title: string; text: string; isUsedUp: boolean } | null {
  const usedUp = usedUpBudgets(budgets);
  const count = countWithheld(budgets);
  if (usedUp.length === 0) {
    if (count === 0) return null;
    return {
      title:
        count === 1
          ? 'One message to a customer is withheld'
          : `${formatCount(count)} messages to customers are withheld`,
      text: reasonsOf(budgets),
      isUsedUp: false,
    };
  }
  return {
    title: `Today's budget of ${channelsOf(usedUp)} is used up`,
    text:
      count === 0
        ? 'All messages so far were sent.'
        : `${count === 1 ? 'One message was' : `${formatCount(count)} messages were`} not sent.`,
    isUsedUp: true,
  };
}

const countWithheld = (budgets: readonly MessageBudget[]): number =>
  budgets.reduce((sum, { over_budget }) => sum + over_budget, 0);

/** Why messages were not sent, as sentences: 'Too many unpaid orders from one network today.' */
function reasonsOf(budgets: readonly MessageBudget[]): string {
  const reasons = budgets.flatMap(({ reason }) => (reason ? [reason.replace(/^Not sent: /, '')] : []));
  return [...new Set(reasons)]
    .map((reason) => `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`)
    .join(' ');
}

/**
 * @param isHosted whether the database belongs to a Supabase project
 * @param status null when the database did not answer
 */
export function describeBackup(isHosted: boolean, status: SystemStatus | null): Line {
  if (isHosted) {
    return { state: 'ok', value: 'Not made here', detail: "The Supabase project's own backups apply." };
  }
  if (!status) return { state: 'attention', value: 'Unknown', detail: "We can't reach the database." };
  const {
    last_backup_at: lastBackupAt,
    last_attempt_outcome: outcome,
    last_attempt_problem: problem,
  } = status;
  const value = lastBackupAt ? between(lastBackupAt, status) : 'None yet';
  if (outcome === 'failed') return { state: 'problem', value, detail: `The last attempt failed: ${problem}` };
  if (outcome === 'impossible') return { state: 'problem', value, detail: problem ?? '' };
  if (!lastBackupAt) {
    const isNew =
      status.opened_at !== null && Date.parse(status.checked_at) - Date.parse(status.opened_at) < newShopMs;
    return isNew
      ? { state: 'ok', value, detail: 'The first is made a few minutes after the start.' }
      : { state: 'attention', value, detail: 'Back up now, or look for the reason in the server’s log.' };
  }
  if (Date.parse(status.checked_at) - Date.parse(lastBackupAt) > backupAge) {
    return { state: 'attention', value, detail: 'Tonight’s is missing. Is the shop switched off at night?' };
  }
  return status.last_backup_outcome === 'verified'
    ? { state: 'ok', value, detail: 'Checked: it restores completely' }
    : { state: 'ok', value, detail: 'Read to its end; the database user may not restore it for a check' };
}

// Both times are from the database's clock, because this device's may be wrong.
function between(then: string, { checked_at: now }: SystemStatus): string {
  return ago(Date.parse(now) - Date.parse(then));
}
