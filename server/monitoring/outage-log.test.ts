import { DatabaseError } from '@jani-juice/backend/database';
import { expect, test } from 'vitest';
import { openLog } from './log.ts';
import { createOutageLog } from './outage-log.ts';

test('logs an outage once per cause, and its end with a count', async () => {
  const lines: Record<string, unknown>[] = [];
  const log = openLog('info', { write: (line) => void lines.push(JSON.parse(line)) });
  let answers = false;
  const query = async () => {
    if (!answers) throw refused;
  };
  const outages = createOutageLog(log, query, { retryMs: 1 });
  const refused = new DatabaseError('connect ECONNREFUSED 10.0.0.5:5432', { code: '08006' });
  const starting = new DatabaseError('the database system is starting up', { code: '57P03' });

  for (let round = 0; round < 100; round += 1) expect(outages.note(refused)).toBe(true);
  expect(outages.note(new Error('Connection terminated unexpectedly'))).toBe(true);
  for (let round = 0; round < 9; round += 1) expect(outages.note(starting)).toBe(true);
  expect(outages.note(new DatabaseError('deadlock detected', { code: '40P01' }))).toBe(false);
  expect(outages.note(new TypeError('x is not a function'))).toBe(false);
  expect(lines.map(({ level, msg, error }) => [level, msg, error])).toEqual([
    ['error', 'the database does not answer', 'connect ECONNREFUSED 10.0.0.5:5432'],
    ['error', 'the database does not answer', 'Connection terminated unexpectedly'],
    ['error', 'the database does not answer', 'the database system is starting up'],
  ]);

  answers = true;
  await expect.poll(() => lines.length).toBe(4);
  expect(lines[3]).toMatchObject({ level: 'info', msg: 'the database answers again', failures: 110 });
  expect(lines[3]?.causes).toHaveLength(3);
  answers = false;
  outages.note(refused);
  expect(lines).toHaveLength(5);
  outages.stop();
});
