// Trouble on demand: the control API can spoil the next N answers of an endpoint or the next N callbacks.

export const answerFaultKinds = [
  /** The firewall's HTML instead of an answer (HTTP 403); nothing happens. */
  'forbidden-html',
  /** HTTP 503; nothing happens. */
  'unavailable',
  /** The connection breaks before anything happens. */
  'drop-connection',
  /** It happens, but the connection breaks before the answer. */
  'lose-answer',
  /** It happens, and the answer takes `delayMs` longer. */
  'delay',
  /** HTTP 500 500.001.1001 "The transaction is being processed", the noise of real queries; nothing happens. */
  'busy',
] as const;

export const callbackFaultKinds = [
  /** Never sent. */
  'drop',
  /** Sent `times` times at once. */
  'duplicate',
  /** Sent `delayMs` later. */
  'delay',
] as const;

export type AnswerFault = {
  next: number;
  kind: (typeof answerFaultKinds)[number];
  delayMs: number;
};
export type CallbackFault = {
  next: number;
  kind: (typeof callbackFaultKinds)[number];
  delayMs: number;
  times: number;
};

export type Endpoint = 'tokens' | 'pushes' | 'queries';

export type Faults = {
  set(orders: FaultOrders): void;
  /** The fault of the next answer, which is used up by asking. */
  takeAnswerFault(endpoint: Endpoint): AnswerFault | null;
  takeCallbackFault(): CallbackFault | null;
  pending(): Record<Endpoint, AnswerFault | null> & { callbacks: CallbackFault | null };
  reset(): void;
};

export type FaultOrders = Partial<Record<Endpoint, AnswerFault>> & { callbacks?: CallbackFault };

export function noFaults(): Faults {
  const answers = new Map<Endpoint, AnswerFault>();
  let callbacks: CallbackFault | null = null;

  const orNothing = <Fault extends { next: number }>(fault: Fault | null | undefined): Fault | null =>
    fault && fault.next > 0 ? fault : null;

  return {
    set(orders) {
      if (orders.tokens) answers.set('tokens', { ...orders.tokens });
      if (orders.pushes) answers.set('pushes', { ...orders.pushes });
      if (orders.queries) answers.set('queries', { ...orders.queries });
      if (orders.callbacks) callbacks = { ...orders.callbacks };
    },
    takeAnswerFault(endpoint) {
      const fault = orNothing(answers.get(endpoint));
      if (fault) fault.next -= 1;
      return fault;
    },
    takeCallbackFault() {
      const fault = orNothing(callbacks);
      if (fault) fault.next -= 1;
      return fault;
    },
    pending: () => ({
      tokens: orNothing(answers.get('tokens')),
      pushes: orNothing(answers.get('pushes')),
      queries: orNothing(answers.get('queries')),
      callbacks: orNothing(callbacks),
    }),
    reset() {
      answers.clear();
      callbacks = null;
    },
  };
}
