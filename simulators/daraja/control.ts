// The control API under /simulator/: what tests, tools and the phone page see of the ledger and do to it.
import type { HttpBindings } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import type { SimulatorClock } from './clock.ts';
import {
  type AnswerFault,
  answerFaultKinds,
  type CallbackFault,
  callbackFaultKinds,
  type FaultOrders,
  type Faults,
} from './faults.ts';
import { type Ledger, outstandingCallbacks, type Prompt, standingDecision } from './ledger.ts';
import type { PromptDecided } from './ledger-entries.ts';
import { readPhoneNumber } from './phone-number.ts';
import type { Prompts } from './prompts.ts';
import type { QueryCounts } from './queries.ts';
import { type Fields, readFields } from './request-fields.ts';
import { describeResult } from './result-codes.ts';
import type { Screens } from './screens.ts';
import type { SimulatorSettings } from './settings.ts';

export type ControlWorld = {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  faults: Faults;
  prompts: Prompts;
  screens: Screens;
  queryCounts: QueryCounts;
  reset(): Promise<void>;
};

const SHOWN_PER_PHONE = 10;

export function controlApi(world: ControlWorld): Hono<{ Bindings: HttpBindings }> {
  const { clock, ledger, prompts } = world;
  const api = new Hono<{ Bindings: HttpBindings }>();

  // A foreign web page can only send this type after a preflight, which nobody here answers.
  api.post('*', async (c, next) => {
    const type = c.req.header('content-type') ?? '';
    return /^application\/json\b/i.test(type) ? next() : problem(c, 415, 'Send application/json.');
  });

  api.get('/ledger', (c) => {
    const phone = c.req.query('phone');
    const reference = c.req.query('reference');
    const wantedPhone = phone === undefined ? undefined : (readPhoneNumber(phone) ?? phone);
    const isWanted = (entry: { phone: string; accountReference: string }) =>
      (wantedPhone === undefined || entry.phone === wantedPhone) &&
      (reference === undefined || entry.accountReference === reference);
    const views = [...ledger.prompts()]
      .filter((prompt) => isWanted(prompt.push))
      .map((prompt) => viewPrompt(prompt, world));
    return c.json({
      now: clock.now(),
      moneyMoved: views.reduce((sum, view) => sum + view.moneyMoved, 0),
      queriesTurnedAway: world.queryCounts.turnedAway,
      prompts: views,
      refused: ledger.refusals().filter(isWanted),
    });
  });

  api.get('/prompts', (c) => {
    const phone = readPhoneNumber(c.req.query('phone') ?? '');
    if (phone === null) return problem(c, 400, 'Name a Kenyan mobile number: ?phone=0712345678');
    // Only a phone page makes prompts wait; a test that merely looks does not.
    if (c.req.query('screen') === 'open') world.screens.seen(phone);
    const newestFirst = ledger.ofPhone(phone).slice(-SHOWN_PER_PHONE).reverse();
    return c.json({ now: clock.now(), prompts: newestFirst.map((prompt) => viewPrompt(prompt, world)) });
  });

  api.post('/prompts/:id/pin', async (c) => {
    const pin = (await readFields(c.req))?.pin;
    if (typeof pin !== 'string' || !/^\d{4}$/.test(pin)) return problem(c, 400, 'A PIN has four digits.');
    return answerPrompt(c, (prompt) => prompts.enterPin(prompt, pin));
  });

  api.post('/prompts/:id/decline', (c) => answerPrompt(c, prompts.decline));

  async function answerPrompt(c: Context, act: (prompt: Prompt) => Promise<PromptDecided | null>) {
    const prompt = ledger.find(c.req.param('id') ?? '');
    if (!prompt) return problem(c, 404, 'There is no such prompt.');
    const decided = await act(prompt);
    return decided ? c.json(viewPrompt(prompt, world)) : problem(c, 409, 'This prompt has been decided.');
  }

  api.get('/faults', (c) => c.json(world.faults.pending()));

  api.post('/faults', async (c) => {
    const orders = readFaultOrders(await readFields(c.req));
    if (typeof orders === 'string') return problem(c, 400, orders);
    world.faults.set(orders);
    return c.json(world.faults.pending());
  });

  api.post('/clock', async (c) => {
    const byMs = (await readFields(c.req))?.advanceMs;
    if (typeof byMs !== 'number' || !Number.isFinite(byMs) || byMs < 0) {
      return problem(c, 400, 'advanceMs is a number of milliseconds, 0 or more.');
    }
    clock.advance(byMs);
    await ledger.write({ kind: 'clock advanced', byMs });
    return c.json({ now: clock.now() });
  });

  api.post('/reset', async (c) => {
    await world.reset();
    return c.json({ now: clock.now() });
  });

  return api;
}

function viewPrompt(prompt: Prompt, { settings, queryCounts }: ControlWorld) {
  const { push, decisions, deliveries } = prompt;
  const { kind: _, at, ...fields } = push;
  const decision = standingDecision(prompt);
  return {
    ...fields,
    at,
    expiresAt: at + settings.promptTimeoutMs,
    state: decision === undefined ? ('open' as const) : ('decided' as const),
    resultCode: decision?.resultCode ?? null,
    resultDesc: decision ? describeResult(decision.resultCode, 'callback') : null,
    receipt: decision?.receipt ?? null,
    moneyMoved: decisions.reduce((sum, { moneyMoved }) => sum + moneyMoved, 0),
    decisions: decisions.map(({ at, resultCode, decidedBy, receipt, moneyMoved, lateSuccessAt }) => ({
      at,
      resultCode,
      decidedBy,
      receipt,
      moneyMoved,
      lateSuccessAt,
    })),
    callbacks: decisions.flatMap(({ callbacks }) =>
      callbacks.map(({ ordinal, dueAt, isDropped, body }) => {
        const delivery = deliveries.find((candidate) => candidate.ordinal === ordinal);
        return {
          ordinal,
          dueAt,
          isDropped,
          deliveredAt: delivery?.at ?? null,
          status: delivery?.status ?? null,
          error: delivery?.error ?? null,
          body: JSON.parse(body) as unknown,
        };
      }),
    ),
    callbacksOutstanding: outstandingCallbacks(prompt).length,
    queries: queryCounts.ofPrompt.get(push.checkoutRequestId)?.asked ?? 0,
  };
}

function problem(c: Context, status: 400 | 404 | 409 | 415, error: string): Response {
  return c.json({ error }, status);
}

/** The orders in a body like `{"pushes": {"next": 2, "kind": "unavailable"}}`, or a sentence on what is wrong. */
function readFaultOrders(fields: Fields | null): FaultOrders | string {
  const names = Object.keys(fields ?? {});
  if (fields === null || names.length === 0) return 'Name faults for tokens, pushes, queries or callbacks.';
  const orders: FaultOrders = {};
  for (const name of names) {
    if (name === 'tokens' || name === 'pushes' || name === 'queries') {
      const fault = readFault(fields[name], answerFaultKinds);
      if (fault === null) return `${name}: {next, kind: ${answerFaultKinds.join(' | ')}, delayMs?}`;
      orders[name] = fault satisfies AnswerFault;
    } else if (name === 'callbacks') {
      const fault = readFault(fields.callbacks, callbackFaultKinds);
      if (fault === null)
        return `callbacks: {next, kind: ${callbackFaultKinds.join(' | ')}, delayMs?, times?}`;
      orders.callbacks = fault satisfies CallbackFault;
    } else {
      return `There are no faults for ${name}.`;
    }
  }
  return orders;
}

function readFault<Kind extends string>(value: unknown, kinds: readonly Kind[]) {
  const { next, kind, delayMs = 0, times = 2 } = (value ?? {}) as Fields;
  const knownKind = kinds.find((candidate) => candidate === kind);
  if (knownKind === undefined || !isCount(next) || !isCount(delayMs) || !isCount(times)) return null;
  return { next, kind: knownKind, delayMs, times };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
