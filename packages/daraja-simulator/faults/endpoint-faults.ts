// Applies injected faults to an endpoint's responses.
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context } from 'hono';
import type { SimulatorClock } from '../ledger/clock.ts';
import { errorResponse, invalidAccessToken, merchantRefusals, noAnswer } from '../requests/daraja-errors.ts';
import type { Endpoint, Faults } from './faults.ts';
import { spikeArrestResponse } from './spike-arrest.ts';

export type SimulatorContext = Context<{ Bindings: HttpBindings }>;

const FIREWALL_PAGE = `<html style="height:100%"><head><META NAME="ROBOTS" CONTENT="NOINDEX, NOFOLLOW"></head>
<body style="margin:0px;height:100%"><iframe id="main-iframe">Request unsuccessful. Incapsula incident ID: 0-0</iframe></body></html>`;

export function forbiddenPage(): Response {
  return new Response(FIREWALL_PAGE, {
    status: 403,
    headers: { 'content-type': 'text/html; charset=utf-8' },
  });
}

export function unavailablePage(): Response {
  return new Response('<html><body><b>Http/1.1 Service Unavailable</b></body></html>', {
    status: 503,
    headers: { 'content-type': 'text/html; charset=utf-8' },
  });
}

/** Closes the connection of this request, so that the client gets no response. */
export function breakConnection(c: SimulatorContext): Response {
  c.env.incoming.socket.destroy();
  return RESPONSE_ALREADY_SENT;
}

/** The endpoint's own response, changed by a pending fault if there is one. */
export async function answerWithFaults(
  c: SimulatorContext,
  dependencies: { faults: Faults; clock: SimulatorClock; endpoint: Endpoint },
  answer: () => Promise<Response>,
): Promise<Response> {
  const fault = dependencies.faults.takeAnswerFault(dependencies.endpoint);
  switch (fault?.kind) {
    case undefined:
      return answer();
    case 'forbidden-html':
      return forbiddenPage();
    case 'unavailable':
      return unavailablePage();
    case 'empty-400':
      return new Response(null, { status: 400 });
    case 'too-many':
      return spikeArrestResponse({ requests: 5, perMs: 60_000 }, fault.retryAfterS);
    case 'invalid-token':
      return errorResponse(invalidAccessToken);
    case 'refuse':
      return errorResponse(merchantRefusals[fault.refusal ?? 'access-token']);
    case 'spoil-answer':
      await answer();
      return c.html('<html><body>Internal Server Error</body></html>', 500);
    case 'busy':
      return errorResponse(noAnswer('The transaction is being processed'));
    case 'drop-connection':
      return breakConnection(c);
    case 'lose-answer':
      await answer();
      return breakConnection(c);
    case 'delay': {
      const response = await answer();
      const { delayMs } = fault;
      await new Promise<void>((resolve) =>
        dependencies.clock.at(dependencies.clock.now() + delayMs, resolve),
      );
      return response;
    }
  }
}
