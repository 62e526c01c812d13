// Simulates Safaricom's Daraja as a separate HTTP service: protocol, ledger, phone page.

import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { controlApi } from './control.ts';
import { answerWithFaults, type SimulatorContext } from './faults/endpoint-faults.ts';
import { createFaults, type Endpoint } from './faults/faults.ts';
import { createSpikeArrest } from './faults/spike-arrest.ts';
import { startClock } from './ledger/clock.ts';
import { openLedger } from './ledger/ledger.ts';
import { answerStatement, registerForStatements } from './ledger/statements.ts';
import { maintenancePage } from './maintenance.ts';
import { indexPage } from './phone/index-page.ts';
import { phonePage } from './phone/phone-page.ts';
import { watchScreens } from './phone/screens.ts';
import { callbackDelivery } from './requests/callbacks.ts';
import {
  type DarajaError,
  errorResponse,
  invalidPayload,
  methodNotAllowed,
  resourceNotFound,
} from './requests/daraja-errors.ts';
import { createInitiatedRequests } from './requests/initiated-requests.ts';
import { createOutgoingMessages } from './requests/outgoing-messages.ts';
import { createPrompts } from './requests/prompts.ts';
import { answerPush } from './requests/pushes.ts';
import { answerQuery, type QueryCounts } from './requests/queries.ts';
import { type Fields, readFields } from './requests/request-fields.ts';
import { shopMessages } from './requests/shop-messages.ts';
import { registerUrls } from './requests/till-urls.ts';
import { issueTokens } from './requests/tokens.ts';
import { type C2bVersion, type SimulatorOptions, withDefaults } from './settings.ts';

export type DarajaSimulator = {
  /** Base URL without a trailing slash. */
  url: string;
  /** Stops at once. Acknowledged events are in the ledger file; pending work resumes after a restart. */
  close(): Promise<void>;
};

const TOKEN_PATH = '/oauth/v1/generate';
const PUSH_PATH = '/mpesa/stkpush/v1/processrequest';
const QUERY_PATH = '/mpesa/stkpushquery/v1/query';
const LARGEST_BODY_BYTES = 64 * 1024;
const LARGEST_CONTROL_BODY_BYTES = 4 * 1024 * 1024;

/** Starts a simulator. Throws when the address is taken or the ledger file cannot be read. */
export async function startDarajaSimulator(options: SimulatorOptions = {}): Promise<DarajaSimulator> {
  const settings = withDefaults(options);
  const { repeatRuleMs, c2bVersion } = settings;
  const ledger = await openLedger(settings.ledgerFile);
  const clock = startClock(settings.clock);
  clock.advance(ledger.clockAdvancedMs());
  const faults = createFaults((target, fault, occurrence) => {
    const struck = { kind: 'fault struck', at: clock.now(), target, fault: fault.kind, occurrence } as const;
    void ledger.write(struck);
  });
  const screens = watchScreens(settings.screenOpenMs);
  const tokens = issueTokens(settings, clock, ledger);
  const spikeArrest = createSpikeArrest(settings.queryLimit, clock);
  const queryCounts: QueryCounts = { ofPrompt: new Map(), turnedAway: 0 };
  const messages = shopMessages(settings.callbackTimeoutMs);
  const delivery = callbackDelivery({ clock, ledger, messages });
  const outgoing = createOutgoingMessages({ clock, ledger, faults, messages });
  const prompts = createPrompts({ settings, clock, ledger, faults, screens, delivery, outgoing });
  const initiatedRequests = createInitiatedRequests({ settings, clock, ledger, faults, outgoing });

  async function reset(): Promise<void> {
    messages.abandon();
    prompts.reset();
    clock.reset();
    faults.reset();
    screens.reset();
    tokens.reset();
    spikeArrest.reset();
    queryCounts.ofPrompt.clear();
    queryCounts.turnedAway = 0;
    Object.assign(settings, { repeatRuleMs, c2bVersion });
    await ledger.empty();
  }

  const pushDependencies = { settings, clock, ledger, tokens, prompts };
  const queryDependencies = { settings, clock, ledger, tokens, spikeArrest, queryCounts };
  const statementDependencies = { settings, clock, ledger };

  /** An endpoint that requires a token and JSON, and records its refusals in the ledger. */
  async function answerRequest(
    c: SimulatorContext,
    api: Endpoint,
    answer: (fields: Fields) => Promise<Response | DarajaError>,
  ): Promise<Response> {
    const tokenError = tokens.refuse(c.req.header('authorization'));
    if (tokenError) return errorResponse(tokenError);
    const fields = await readFields(c.req);
    const answered = fields ? await answer(fields) : invalidPayload;
    if (answered instanceof Response) return answered;
    await ledger.write({ kind: 'request refused', at: clock.now(), api, ...answered });
    return errorResponse(answered);
  }

  const answerC2bRegistration = (c: SimulatorContext, version: C2bVersion) =>
    answerRequest(c, 'registrations', (fields) => registerUrls(fields, version, statementDependencies));

  const darajaPaths: Record<string, [Endpoint, (c: SimulatorContext) => Promise<Response>]> = {
    [PUSH_PATH]: ['pushes', (c) => answerPush(c, pushDependencies)],
    [QUERY_PATH]: ['queries', (c) => answerQuery(c, queryDependencies)],
    '/mpesa/c2b/v1/registerurl': ['registrations', (c) => answerC2bRegistration(c, 'v1')],
    '/mpesa/c2b/v2/registerurl': ['registrations', (c) => answerC2bRegistration(c, 'v2')],
    '/pulltransactions/v1/register': [
      'registrations',
      (c) =>
        answerRequest(c, 'registrations', (fields) => registerForStatements(fields, statementDependencies)),
    ],
    '/pulltransactions/v1/query': [
      'statements',
      (c) =>
        answerRequest(c, 'statements', (fields) =>
          answerStatement(fields, { ...statementDependencies, faults }),
        ),
    ],
    '/mpesa/reversal/v1/request': [
      'reversals',
      (c) => answerRequest(c, 'reversals', (fields) => initiatedRequests.take('reversals', fields)),
    ],
    '/mpesa/transactionstatus/v1/query': [
      'statuses',
      (c) => answerRequest(c, 'statuses', (fields) => initiatedRequests.take('statuses', fields)),
    ],
  };
  const withFaults = async (c: SimulatorContext, endpoint: Endpoint, answer: () => Promise<Response>) =>
    maintenancePage(clock, ledger) ?? answerWithFaults(c, { faults, clock, endpoint }, answer);

  const app = new Hono<{ Bindings: HttpBindings }>();
  const refuseLarge = () => errorResponse(invalidPayload);
  const limitBody = bodyLimit({ maxSize: LARGEST_BODY_BYTES, onError: refuseLarge });
  const limitControlBody = bodyLimit({ maxSize: LARGEST_CONTROL_BODY_BYTES, onError: refuseLarge });
  app.use((c, next) => (c.req.path.startsWith('/simulator/') ? limitControlBody : limitBody)(c, next));
  app.get(TOKEN_PATH, (c) =>
    withFaults(c, 'tokens', () => tokens.generate(c.req.header('authorization'), c.req.query('grant_type'))),
  );
  app.all(TOKEN_PATH, () => errorResponse(methodNotAllowed));
  for (const [path, [endpoint, answer]] of Object.entries(darajaPaths)) {
    app.post(path, (c) => withFaults(c, endpoint, () => answer(c)));
    app.all(path, () => errorResponse(methodNotAllowed));
  }
  app.route(
    '/simulator',
    controlApi({
      settings,
      clock,
      ledger,
      faults,
      prompts,
      screens,
      queryCounts,
      outgoing,
      messages,
      tokens,
      reset,
    }),
  );
  app.get('/', () => indexPage(settings));
  app.get('/phone', (c) => phonePage(c.req.query('number'), settings));
  app.notFound(() => errorResponse(resourceNotFound));
  app.onError((problem) => {
    console.error('daraja simulator:', problem);
    return errorResponse({
      status: 500,
      errorCode: '500.003.1001',
      errorMessage: 'Internal Server Error',
    });
  });

  // The shop may run in this process, so its global Request and Response must stay.
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server;
  try {
    await listen(server, settings.port, settings.host);
  } catch (problem) {
    await ledger.close();
    throw problem;
  }
  prompts.resume();
  outgoing.resume();
  initiatedRequests.resume();

  const { port } = server.address() as AddressInfo;
  const host = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  let closing: Promise<void> | undefined;
  return {
    url: `http://${host}:${port}`,
    close() {
      closing ??= (async () => {
        clock.stop();
        // The next start sends undelivered messages again.
        messages.abandon();
        await new Promise<void>((resolve) => {
          server.close(() => resolve());
          server.closeAllConnections();
        });
        await ledger.close();
      })();
      return closing;
    },
  };
}

function listen(server: Server, port: number, host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
