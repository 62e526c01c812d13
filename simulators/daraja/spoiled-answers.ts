// Carries out the faults that were ordered for an endpoint's answers.
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import type { Context } from 'hono';
import type { SimulatorClock } from './clock.ts';
import { errorResponse, noAnswer } from './daraja-errors.ts';
import type { Endpoint, Faults } from './faults.ts';

export type SimulatorContext = Context<{ Bindings: HttpBindings }>;

const FIREWALL_PAGE = `<html style="height:100%"><head><META NAME="ROBOTS" CONTENT="NOINDEX, NOFOLLOW"></head>
<body style="margin:0px;height:100%"><iframe id="main-iframe">Request unsuccessful. Incapsula incident ID: 0-0</iframe></body></html>`;

/** Breaks the connection of this request, so that its client never learns the answer. */
export function breakConnection(c: SimulatorContext): Response {
  c.env.incoming.socket.destroy();
  return RESPONSE_ALREADY_SENT;
}

/** The endpoint's own answer, or what a pending fault makes of it. */
export async function answerDespiteFaults(
  c: SimulatorContext,
  world: { faults: Faults; clock: SimulatorClock; endpoint: Endpoint },
  answer: () => Promise<Response>,
): Promise<Response> {
  const fault = world.faults.takeAnswerFault(world.endpoint);
  switch (fault?.kind) {
    case undefined:
      return answer();
    case 'forbidden-html':
      return c.html(FIREWALL_PAGE, 403);
    case 'unavailable':
      return c.html('<html><body><b>Http/1.1 Service Unavailable</b></body></html>', 503);
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
      await new Promise<void>((resolve) => world.clock.at(world.clock.now() + delayMs, resolve));
      return response;
    }
  }
}
