// Confirmations of payments and results of requests: planned in the ledger, then sent once, unsigned, without retries.
import { randomUUID } from 'node:crypto';
import type { SimulatorClock } from './clock.ts';
import type { Faults, Message } from './faults.ts';
import type { Ledger } from './ledger.ts';
import type { NoticePlanned } from './ledger-entries.ts';
import type { ShopMessages } from './shop-messages.ts';

type NoticeToSend = {
  purpose: NoticePlanned['purpose'];
  /** Receipt or conversation ID. */
  about: string;
  url: string;
  body: string;
  dueAt: number;
  isDropped?: boolean;
};

export type Notices = {
  /** Records the message and sends it when due. Resolves when it is in the ledger. */
  plan(notice: NoticeToSend): Promise<void>;
  /** After a restart: sends unsent messages. */
  resume(): void;
};

const faultsOf: Record<NoticePlanned['purpose'], Message> = {
  confirmation: 'confirmations',
  result: 'results',
};

export function createNotices(dependencies: {
  clock: SimulatorClock;
  ledger: Ledger;
  faults: Faults;
  messages: ShopMessages;
}): Notices {
  const { clock, ledger, faults, messages } = dependencies;

  async function send({ id, url, body }: NoticePlanned): Promise<void> {
    const { status, error, isAbandoned } = await messages.post(url, body);
    if (isAbandoned) return;
    await ledger.write({ kind: 'notice delivered', at: clock.now(), id, status, error });
  }

  return {
    async plan({ purpose, about, url, body, dueAt, isDropped = false }) {
      const fault = faults.takeMessageFault(faultsOf[purpose]);
      const times = fault?.kind === 'duplicate' ? fault.times : 1;
      const notices = Array.from(
        { length: times },
        (): NoticePlanned => ({
          kind: 'notice planned',
          id: randomUUID(),
          at: clock.now(),
          purpose,
          about,
          url,
          body,
          dueAt: dueAt + (fault?.kind === 'delay' ? fault.delayMs : 0),
          isDropped: isDropped || fault?.kind === 'drop',
        }),
      );
      await Promise.all(notices.map((notice) => ledger.write(notice)));
      for (const notice of notices) {
        if (!notice.isDropped) clock.at(notice.dueAt, () => send(notice));
      }
    },
    resume() {
      for (const { planned, delivered } of ledger.notices()) {
        if (!planned.isDropped && !delivered) clock.at(planned.dueAt, () => send(planned));
      }
    },
  };
}
