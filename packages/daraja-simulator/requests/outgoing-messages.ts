// Confirmations of payments and results of requests: planned in the ledger, then sent once, unsigned, without retries.
import { randomUUID } from 'node:crypto';
import type { Faults, Message } from '../faults/faults.ts';
import { spell } from '../faults/spellings.ts';
import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { MessagePlanned } from '../ledger/ledger-entries.ts';
import type { ShopMessages } from './shop-messages.ts';

type MessageToSend = {
  purpose: MessagePlanned['purpose'];
  /** Receipt or conversation ID. */
  about: string;
  url: string;
  body: string;
  dueAt: number;
  isDropped?: boolean;
};

export type OutgoingMessages = {
  /** Records the message and sends it when due. Resolves when it is in the ledger. */
  plan(message: MessageToSend): Promise<void>;
  /** After a restart: sends unsent messages. */
  resume(): void;
};

const faultsOf: Record<MessagePlanned['purpose'], Message> = {
  confirmation: 'confirmations',
  result: 'results',
};

export function createOutgoingMessages(dependencies: {
  clock: SimulatorClock;
  ledger: Ledger;
  faults: Faults;
  messages: ShopMessages;
}): OutgoingMessages {
  const { clock, ledger, faults, messages } = dependencies;

  async function send({ id, url, body }: MessagePlanned): Promise<void> {
    const { status, error, isAbandoned } = await messages.post(url, body);
    if (isAbandoned) return;
    await ledger.write({ kind: 'message delivered', at: clock.now(), id, status, error });
  }

  return {
    async plan({ purpose, about, url, body, dueAt, isDropped = false }) {
      const fault = faults.takeMessageFault(faultsOf[purpose]);
      const times = fault?.kind === 'duplicate' ? fault.times : 1;
      const outgoing = Array.from(
        { length: times },
        (): MessagePlanned => ({
          kind: 'message planned',
          id: randomUUID(),
          at: clock.now(),
          purpose,
          about,
          url,
          body: fault?.kind === 'spell' ? JSON.stringify(spell(JSON.parse(body), fault.spelling)) : body,
          dueAt: dueAt + (fault?.kind === 'delay' ? fault.delayMs : 0),
          isDropped: isDropped || fault?.kind === 'drop',
        }),
      );
      await Promise.all(outgoing.map((message) => ledger.write(message)));
      for (const message of outgoing) {
        if (!message.isDropped) clock.at(message.dueAt, () => send(message));
      }
    },
    resume() {
      for (const { planned, delivered } of ledger.messages()) {
        if (!planned.isDropped && !delivered) clock.at(planned.dueAt, () => send(planned));
      }
    },
  };
}
