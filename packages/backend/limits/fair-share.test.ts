import { expect, test } from 'vitest';
import { createFairShare, visitorAt } from './fair-share.ts';

const nextTurn = () => new Promise((done) => setImmediate(done));
const [one, other, quiet] = ['192.0.2.1', '198.51.100.1', '203.0.113.1'];

/** The fair queues of a process that receives requests from several networks. */
function shareOf(addresses: readonly string[]) {
  const share = createFairShare('postgresql');
  for (const address of addresses) share.recent.note(address);
  return share;
}
const atOnce = (share: ReturnType<typeof shareOf>, address: string, requests: number) =>
  Array.from({ length: requests }, () => share.startsAtOnce(address)).filter(Boolean).length;

test('a client that is alone is answered from memory without queueing', () => {
  expect(atOnce(shareOf([one]), one, 1_000)).toBe(1_000);
});

test('some answers per turn do not queue while others send requests', async () => {
  const share = shareOf([one, other]);
  expect(atOnce(share, one, 1_000)).toBe(32);
  await nextTurn();
  expect(atOnce(share, one, 1_000)).toBe(32);
});

test('a client whose answers queue waits for them, and others do not', async () => {
  const share = shareOf([one, other]);
  const answered: string[] = [];
  for (const address of [...Array<string>(300).fill(one), ...Array<string>(10).fill(other)]) {
    void share.direct.run(visitorAt(address), async () => void answered.push(address));
  }
  await nextTurn();
  await nextTurn();
  expect(answered.filter((address) => address === other).length).toBeGreaterThanOrEqual(4);
  expect(share.direct.queued).toBeGreaterThan(200);
  expect([atOnce(share, one, 1), atOnce(share, other, 1), atOnce(share, quiet, 1)]).toEqual([0, 0, 1]);
});
