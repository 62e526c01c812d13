// A pretend Safaricom Daraja as an HTTP service of its own: the wire protocol, a ledger, a phone to pay with.

import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAdaptorServer, type HttpBindings } from '@hono/node-server';
import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { callbackDelivery } from './callbacks.ts';
import { startClock } from './clock.ts';
import { controlApi } from './control.ts';
import { errorResponse, invalidPayload, methodNotAllowed, resourceNotFound } from './daraja-errors.ts';
import { type Endpoint, noFaults } from './faults.ts';
import { indexPage } from './index-page.ts';
import { openLedger } from './ledger.ts';
import { phonePage } from './phone-page.ts';
import { keepPrompts } from './prompts.ts';
import { answerPush } from './pushes.ts';
import { answerQuery, type QueryCounts } from './queries.ts';
import { watchScreens } from './screens.ts';
import { type SimulatorOptions, withDefaults } from './settings.ts';
import { arrestSpikes } from './spike-arrest.ts';
import { answerDespiteFaults, type SimulatorContext } from './spoiled-answers.ts';
import { issueTokens } from './tokens.ts';

export type DarajaSimulator = {
  /** Where it listens, without a slash at the end. */
  url: string;
  /** Stops it at once. What was acknowledged is in the ledger file; what was under way goes on after a restart. */
  close(): Promise<void>;
};

const TOKEN_PATH = '/oauth/v1/generate';
const PUSH_PATH = '/mpesa/stkpush/v1/processrequest';
const QUERY_PATH = '/mpesa/stkpushquery/v1/query';
const LARGEST_BODY_BYTES = 64 * 1024;

/** Starts a simulator. Throws when the address is taken or the ledger file cannot be read. */
export async function startDarajaSimulator(options: SimulatorOptions = {}): Promise<DarajaSimulator> {
  const settings = withDefaults(options);
  const ledger = await openLedger(settings.ledgerFile);
  const clock = startClock(settings.clock);
  clock.advance(ledger.clockAdvancedMs());
  const faults = noFaults();
  const screens = watchScreens(settings.screenOpenMs);
  const tokens = issueTokens(settings, clock);
  const spikeArrest = arrestSpikes(settings.queryLimit, clock);
  const queryCounts: QueryCounts = { ofPrompt: new Map(), turnedAway: 0 };
  const delivery = callbackDelivery({ clock, ledger, timeoutMs: settings.callbackTimeoutMs });
  const prompts = keepPrompts({ settings, clock, ledger, faults, screens, delivery });

  async function reset(): Promise<void> {
    delivery.abandon();
    prompts.reset();
    clock.reset();
    faults.reset();
    screens.reset();
    tokens.reset();
    spikeArrest.reset();
    queryCounts.ofPrompt.clear();
    queryCounts.turnedAway = 0;
    await ledger.empty();
  }

  const pushWorld = { settings, clock, ledger, tokens, prompts };
  const queryWorld = { settings, clock, ledger, tokens, spikeArrest, queryCounts };
  const despiteFaults = (c: SimulatorContext, endpoint: Endpoint, answer: () => Promise<Response>) =>
    answerDespiteFaults(c, { faults, clock, endpoint }, answer);

  const app = new Hono<{ Bindings: HttpBindings }>();
  app.use(bodyLimit({ maxSize: LARGEST_BODY_BYTES, onError: () => errorResponse(invalidPayload) }));
  app.get(TOKEN_PATH, (c) =>
    despiteFaults(c, 'tokens', async () =>
      tokens.generate(c.req.header('authorization'), c.req.query('grant_type')),
    ),
  );
  app.post(PUSH_PATH, (c) => despiteFaults(c, 'pushes', () => answerPush(c, pushWorld)));
  app.post(QUERY_PATH, (c) => despiteFaults(c, 'queries', () => answerQuery(c, queryWorld)));
  for (const path of [TOKEN_PATH, PUSH_PATH, QUERY_PATH]) {
    app.all(path, () => errorResponse(methodNotAllowed));
  }
  app.route(
    '/simulator',
    controlApi({ settings, clock, ledger, faults, prompts, screens, queryCounts, reset }),
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

  // The shop may share this process; its Request and Response stay what they are.
  const server = createAdaptorServer({ fetch: app.fetch, overrideGlobalObjects: false }) as Server;
  try {
    await listen(server, settings.port, settings.host);
  } catch (problem) {
    await ledger.close();
    throw problem;
  }
  prompts.resume();

  const { port } = server.address() as AddressInfo;
  const host = settings.host.includes(':') ? `[${settings.host}]` : settings.host;
  let closing: Promise<void> | undefined;
  return {
    url: `http://${host}:${port}`,
    close() {
      closing ??= (async () => {
        clock.stop();
        delivery.stop();
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
