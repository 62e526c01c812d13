// The process that attacks: of its own, so that it takes nothing from the one that measures.
import { constants, setPriority } from 'node:os';
import { attacks, type Target } from './attacks.ts';

export type AttackerMessage = { start: string; target: Target } | { stop: true };

// On one machine an attacker's own work would take the processor from the shop; a real one brings its own.
setPriority(constants.priority.PRIORITY_LOW);
const stop = new AbortController();

process.on('message', async (message: AttackerMessage) => {
  if ('stop' in message) return stop.abort();
  const attack = attacks.find(({ name }) => name === message.start);
  if (!attack) throw new Error(`there is no attack "${message.start}"`);
  const statuses = await attack.run(message.target, stop.signal);
  process.send?.(statuses, () => process.exit(0));
});
