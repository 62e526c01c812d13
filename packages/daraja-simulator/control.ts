// The control API under /simulator/, for tests, tools and the phone page.
import type { HttpBindings } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import { certificate } from './certificate.ts';
import type { Faults } from './faults/faults.ts';
import { readFaults } from './faults/read-faults.ts';
import type { SimulatorClock } from './ledger/clock.ts';
import {
  currentDecision,
  type InitiatedRequest,
  type Ledger,
  type OutgoingMessage,
  outstandingCallbacks,
  type Prompt,
} from './ledger/ledger.ts';
import type { PromptDecided } from './ledger/ledger-entries.ts';
import { drawReceipt } from './ledger/receipt.ts';
import { payByHand, readPaymentWithoutPrompt } from './phone/payments-by-hand.ts';
import { readPhoneNumber } from './phone/phone-number.ts';
import type { Screens } from './phone/screens.ts';
import type { OutgoingMessages } from './requests/outgoing-messages.ts';
import type { Prompts } from './requests/prompts.ts';
import type { QueryCounts } from './requests/queries.ts';
import { readFields } from './requests/request-fields.ts';
import { describeResult } from './requests/result-codes.ts';
import type { ShopMessages } from './requests/shop-messages.ts';
import type { Tokens } from './requests/tokens.ts';
import type { SimulatorSettings } from './settings.ts';

export type ControlDependencies = {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  faults: Faults;
  prompts: Prompts;
  screens: Screens;
  queryCounts: QueryCounts;
  outgoing: OutgoingMessages;
  messages: ShopMessages;
  tokens: Tokens;
  reset(): Promise<void>;
};

const SHOWN_PER_PHONE = 10;

export function controlApi(dependencies: ControlDependencies): Hono<{ Bindings: HttpBindings }> {
  const { clock, ledger, prompts } = dependencies;
  const api = new Hono<{ Bindings: HttpBindings }>();

  // A foreign web page can send this type only after a CORS preflight, which gets no answer here.
  api.post('*', async (c, next) => {
    const type = c.req.header('content-type') ?? '';
    return /^application\/json\b/i.test(type) ? next() : problem(c, 415, 'Send application/json.');
  });

  // What has been shown survives a kill.
  api.get('*', async (_, next) => {
    await next();
    await ledger.durable();
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
      .map((prompt) => viewPrompt(prompt, dependencies));
    return c.json({
      now: clock.now(),
      // With a filter, the matching prompts; without one, everything received.
      moneyMoved:
        phone === undefined && reference === undefined
          ? ledger.moneyMoved()
          : views.reduce((sum, view) => sum + view.moneyMoved, 0),
      moneyReturned: ledger.moneyReturned(),
      queriesTurnedAway: dependencies.queryCounts.turnedAway,
      tokensMade: ledger.tokensMade(),
      faultsStruck: ledger.faultsStruck(),
      prompts: views,
      refused: ledger.refusals().filter(isWanted),
      transactions: ledger.transactions(),
      declined: ledger.declined(),
      urls: ledger.urls(),
      statement: ledger.statement(),
      requests: [...ledger.requests()].map(viewRequest),
      messages: [...ledger.messages()].map(viewMessage),
      requestsRefused: ledger.requestRefusals(),
      maintenance: ledger.maintenance(),
    });
  });

  // Only incoming and returned money: small enough for tens of thousands of payments.
  api.get('/transactions', (c) =>
    c.json({
      now: clock.now(),
      moneyMoved: ledger.moneyMoved(),
      moneyReturned: ledger.moneyReturned(),
      transactions: ledger.transactions(),
    }),
  );

  api.get('/certificate', () => new Response(certificate, { headers: { 'content-type': 'text/plain' } }));

  api.get('/prompts', (c) => {
    const phone = readPhoneNumber(c.req.query('phone') ?? '');
    if (phone === null) return problem(c, 400, 'Name a Kenyan mobile number: ?phone=0712345678');
    // Only a phone page makes prompts wait; other callers just read.
    if (c.req.query('screen') === 'open') dependencies.screens.seen(phone);
    const newestFirst = ledger.ofPhone(phone).slice(-SHOWN_PER_PHONE).reverse();
    const payments = ledger.transactions().filter((payment) => payment.phone === phone);
    return c.json({
      now: clock.now(),
      prompts: newestFirst.map((prompt) => viewPrompt(prompt, dependencies)),
      payments: payments
        .filter(({ method, reversal }) => method !== 'prompt' || reversal !== null)
        .slice(-SHOWN_PER_PHONE)
        .reverse(),
    });
  });

  api.post('/payments', async (c) => {
    const payment = readPaymentWithoutPrompt(await readFields(c.req), dependencies.settings);
    if (typeof payment === 'string') return problem(c, 400, payment);
    const result = await payByHand(payment, dependencies);
    if ('declined' in result)
      return c.json({ error: `The shop declined: ${result.declined}`, ...result }, 409);
    return c.json(ledger.transaction(result.receipt));
  });

  api.post('/reversals', async (c) => {
    const receipt = (await readFields(c.req))?.receipt;
    const payment = ledger.transaction(typeof receipt === 'string' ? receipt : '');
    if (!payment) return problem(c, 404, 'There is no payment with this receipt.');
    if (payment.reversal) return problem(c, 409, 'This payment was reversed already.');
    const at = clock.now();
    const reversalReceipt = drawReceipt(at, ledger.hasReceipt);
    await ledger.write({ kind: 'payment reversed', at, receipt: payment.receipt, reversalReceipt });
    return c.json(payment);
  });

  api.post('/lines', async (c) => {
    const line = (await readFields(c.req))?.line;
    if (line === undefined) return problem(c, 400, 'Send {line}, as the statement is to list it.');
    await ledger.write({ kind: 'line added', at: clock.now(), line });
    return c.json(line);
  });

  api.post('/prompts/:id/pin', async (c) => {
    const { pin, appliesRepeatRule = false } = (await readFields(c.req)) ?? {};
    if (typeof pin !== 'string' || !/^\d{4}$/.test(pin)) return problem(c, 400, 'A PIN has four digits.');
    return answerPrompt(c, (prompt) => prompts.enterPin(prompt, pin, appliesRepeatRule === true));
  });

  api.post('/prompts/:id/decline', (c) => answerPrompt(c, prompts.decline));

  async function answerPrompt(c: Context, act: (prompt: Prompt) => Promise<PromptDecided | null>) {
    const prompt = ledger.find(c.req.param('id') ?? '');
    if (!prompt) return problem(c, 404, 'There is no such prompt.');
    const decided = await act(prompt);
    return decided
      ? c.json(viewPrompt(prompt, dependencies))
      : problem(c, 409, 'This prompt has been decided.');
  }

  api.get('/faults', (c) =>
    c.json({ ...dependencies.faults.pending(), script: dependencies.faults.script() }),
  );

  api.post('/faults', async (c) => {
    const read = readFaults(await readFields(c.req));
    if (typeof read === 'string') return problem(c, 400, read);
    dependencies.faults.order(read.orders);
    if (read.script) dependencies.faults.follow(read.script);
    return c.json({ ...dependencies.faults.pending(), script: dependencies.faults.script() });
  });

  const rules = () => {
    const { repeatRuleMs, c2bVersion } = dependencies.settings;
    return { repeatRuleMs, c2bVersion };
  };
  api.get('/rules', (c) => c.json(rules()));

  api.post('/rules', async (c) => {
    const changed = { ...rules(), ...(await readFields(c.req)) };
    const { repeatRuleMs, c2bVersion } = changed;
    const isVersion = c2bVersion === 'v1' || c2bVersion === 'v2';
    if (Object.keys(changed).length !== 2 || !isDuration(repeatRuleMs) || !isVersion) {
      return problem(c, 400, 'Send {repeatRuleMs?, c2bVersion?}: milliseconds, and v1 or v2.');
    }
    Object.assign(dependencies.settings, { repeatRuleMs, c2bVersion });
    return c.json(rules());
  });

  api.post('/maintenance', async (c) => {
    const { inMs = 0, forMs, status = 503 } = (await readFields(c.req)) ?? {};
    if (!isDuration(inMs) || !isDuration(forMs) || (status !== 403 && status !== 503)) {
      return problem(c, 400, 'Send {forMs, inMs?, status?}: milliseconds, and 503 or 403.');
    }
    const at = clock.now();
    await ledger.write({ kind: 'maintenance set', at, from: at + inMs, until: at + inMs + forMs, status });
    return c.json(ledger.maintenance());
  });

  api.post('/tokens/invalidate', (c) => {
    dependencies.tokens.invalidate();
    return c.json({ tokensMade: ledger.tokensMade() });
  });

  api.get('/clock', (c) => c.json({ now: clock.now(), advancedMs: ledger.clockAdvancedMs() }));

  api.post('/clock', async (c) => {
    const byMs = (await readFields(c.req))?.advanceMs;
    if (!isDuration(byMs)) {
      return problem(c, 400, 'advanceMs is a number of milliseconds, 0 or more.');
    }
    clock.advance(byMs);
    await ledger.write({ kind: 'clock advanced', byMs });
    return c.json({ now: clock.now() });
  });

  api.post('/reset', async (c) => {
    await dependencies.reset();
    return c.json({ now: clock.now() });
  });

  return api;
}

function viewPrompt(prompt: Prompt, { settings, queryCounts }: ControlDependencies) {
  const { push, decisions, deliveries } = prompt;
  const { kind: _, at, ...fields } = push;
  const decision = currentDecision(prompt);
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
    queries: queryCounts.ofPrompt.get(push.checkoutRequestId)?.requests ?? 0,
  };
}

function problem(c: Context, status: 400 | 404 | 409 | 415, error: string): Response {
  return c.json({ error }, status);
}

function viewRequest({ taken, decided }: InitiatedRequest) {
  const { kind: _, ...fields } = taken;
  return {
    ...fields,
    decidedAt: decided?.at ?? null,
    resultCode: decided?.resultCode ?? null,
    reversalReceipt: decided?.receipt ?? null,
    moneyReturned: decided?.moneyReturned ?? 0,
  };
}

function viewMessage({ planned, delivered }: OutgoingMessage) {
  const { kind: _, body, ...fields } = planned;
  return {
    ...fields,
    body: JSON.parse(body) as unknown,
    deliveredAt: delivered?.at ?? null,
    status: delivered?.status ?? null,
    error: delivered?.error ?? null,
  };
}

function isDuration(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
