import { expect, test } from 'vitest';
import { lostCode, type SettledWrite, savedCode, withLostAnswers } from './lost-answers.ts';

const lost = () => Promise.reject(new TypeError('Failed to fetch'));
const answer = (status: number) => () => Promise.resolve(Response.json({}, { status }));
const saved: SettledWrite = { is_saved: true, answer: { change_id: 'c1' } };
const unsaved: SettledWrite = { is_saved: false, answer: null };
const unreachable = () => Promise.reject(new Error('no connection'));

/** Sends a write; `sends` and `settlements` are used up one after another, the last one stays. */
async function write(
  sends: (() => Promise<Response>)[],
  settlements: (() => Promise<SettledWrite>)[],
  init: RequestInit = { method: 'POST' },
) {
  const ids: (string | null)[] = [];
  const next = <Item>(items: Item[]): Item => (items.length > 1 ? items.shift() : items[0]) as Item;
  let questions = 0;
  const send = withLostAnswers(
    (_, sent) => {
      ids.push(new Headers(sent?.headers).get('x-write-id'));
      return next(sends)();
    },
    () => {
      questions += 1;
      return next(settlements)();
    },
    async () => {},
  );
  const response = await send('http://shop.example/rest/v1/orders', init);
  return { status: response.status, body: await response.json(), ids, questions };
}

test.each([200, 201, 400, 403, 409, 500])(
  'passes on an answer with status %i without a question',
  async (status) => {
    const { status: passed, ids, questions } = await write([answer(status)], [unreachable]);
    expect([passed, ids.length, questions]).toEqual([status, 1, 0]);
  },
);

test.each([
  ['no answer', lost],
  ['status 502', answer(502)],
  ['status 503', answer(503)],
  ['status 504', answer(504)],
])('after %s, a write that was saved is reported as saved, with what the database kept', async (_, given) => {
  const { body, ids } = await write([given], [async () => saved]);
  expect(body).toMatchObject({ code: savedCode, details: JSON.stringify(saved.answer) });
  expect(ids).toHaveLength(1);
});

test('a write that was not saved is sent again, under another id', async () => {
  const { status, ids } = await write([lost, answer(200)], [async () => unsaved]);
  expect(status).toBe(200);
  expect(new Set(ids).size).toBe(2);
});

test('a write that never gets through is sent three times, and ends without an answer', async () => {
  const { status, ids } = await write([lost], [async () => unsaved]);
  expect([status, ids.length]).toEqual([503, 3]);
});

test('a write of which nothing is known is not sent again, and its answer has its id', async () => {
  const { status, body, ids, questions } = await write([lost], [unreachable]);
  expect([status, ids.length]).toEqual([504, 1]);
  expect(body).toMatchObject({ code: lostCode, details: ids[0] });
  expect(questions).toBeGreaterThan(2);
});

test('asks again until the connection is back', async () => {
  const { body } = await write([lost], [unreachable, unreachable, async () => saved]);
  expect(body.code).toBe(savedCode);
});

test.each([
  ['a GET', {}],
  ['a HEAD', { method: 'HEAD' }],
  ['a query with a signal', { method: 'POST', signal: new AbortController().signal }],
])('%s has no id, and fails as it is', async (_, init) => {
  const { ids } = await write([answer(503)], [unreachable], init);
  expect(ids).toEqual([null]);
  await expect(write([lost], [unreachable], init)).rejects.toThrow('Failed to fetch');
});
