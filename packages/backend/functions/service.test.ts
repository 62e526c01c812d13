// The function runner with the official client, and with raw requests of third parties.
import { FunctionsClient, FunctionsHttpError, FunctionsRelayError } from '@supabase/functions-js';
import { describe, expect, test } from 'vitest';
import type { Caller } from '../caller.ts';
import {
  createFunctionsService,
  type DeployedFunction,
  type FunctionHandler,
  type FunctionsOptions,
} from './service.ts';

const visitor: Caller = { claims: { role: 'anon' }, address: '192.0.2.1' };

function run(functions: Record<string, FunctionHandler>, options: Omit<FunctionsOptions, 'functions'> = {}) {
  const errors: [unknown, string][] = [];
  const service = createFunctionsService({
    functions: Object.fromEntries(Object.entries(functions).map(([name, handler]) => [name, { handler }])),
    onError: (error, name) => errors.push([error, name]),
    ...options,
  });
  const send = (url: string, init?: RequestInit) =>
    service.fetch(new Request(new URL(url, 'http://shop.example/functions/v1/'), init), visitor);
  const client = new FunctionsClient('http://shop.example/functions/v1', {
    headers: { apikey: 'key' },
    customFetch: (input, init) => service.fetch(new Request(input, init), visitor),
  });
  return { client, send, errors };
}

const echo: FunctionHandler = async (request, { caller }) =>
  Response.json({
    method: request.method,
    url: request.url,
    type: request.headers.get('content-type'),
    body: await request.text(),
    role: caller.claims.role,
    address: caller.address,
  });

describe('a function', () => {
  test.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const)(
    'receives the method %s, the caller and the unchanged request',
    async (method) => {
      const { data, error } = await run({ echo }).client.invoke('echo/callback/7?a=1', {
        method,
        ...(method === 'GET' ? {} : { body: { amount: 100 } }),
      });
      expect(error).toBeNull();
      expect(data).toEqual({
        method,
        url: 'http://shop.example/functions/v1/echo/callback/7?a=1',
        type: method === 'GET' ? null : 'application/json',
        body: method === 'GET' ? '' : '{"amount":100}',
        role: 'anon',
        address: '192.0.2.1',
      });
    },
  );

  test('receives a raw body unchanged, with and without a Content-Length', async () => {
    const body = new Uint8Array([0, 255, 10, 13, 195, 40]);
    const mirror: FunctionHandler = async (request) =>
      new Response(await request.arrayBuffer(), { headers: { 'content-type': 'application/octet-stream' } });
    for (const headers of [{}, { 'content-length': '6' }]) {
      const answer = await run({ mirror }).send('mirror', { method: 'POST', body, headers });
      expect(new Uint8Array(await answer.arrayBuffer())).toEqual(body);
    }
  });

  test('can answer with any status, headers and body', async () => {
    const { client, send } = run({
      teapot: () => Response.json({ short: true }, { status: 418, headers: { 'x-own': 'yes' } }),
      text: () => new Response('habari'),
      nothing: () => new Response(null, { status: 204 }),
    });
    const { error, response } = await client.invoke('teapot');
    expect(error).toBeInstanceOf(FunctionsHttpError);
    expect([response?.status, response?.headers.get('x-own'), await error.context.json()]).toEqual([
      418,
      'yes',
      { short: true },
    ]);
    expect((await client.invoke('text')).data).toBe('habari');
    expect((await send('nothing')).status).toBe(204);
  });

  test('that throws gets a 500 response without details', async () => {
    const failure = new Error('password=hunter2');
    const { client, errors } = run({
      broken: () => {
        throw failure;
      },
      rejecting: () => Promise.reject(failure),
    });
    for (const name of ['broken', 'rejecting']) {
      const { error } = await client.invoke(name);
      expect(error).toBeInstanceOf(FunctionsHttpError);
      expect([error.context.status, await error.context.text()]).toEqual([
        500,
        '{"error":"Internal Server Error"}',
      ]);
    }
    expect(errors).toEqual([
      [failure, 'broken'],
      [failure, 'rejecting'],
    ]);
  });

  test('that does not return a Response gets a 500 response', async () => {
    const { client, errors } = run({ wrong: (() => 'text') as never });
    expect((await client.invoke('wrong')).error.context.status).toBe(500);
    expect(errors).toMatchObject([[expect.any(TypeError), 'wrong']]);
  });

  test('that exceeds the time limit is aborted, gets a 504 response, and its later error is reported', async () => {
    const late = new Error('late');
    let fail = () => {};
    const slow: FunctionHandler = (_, { signal }) =>
      new Promise((_done, reject) => {
        fail = () => reject(signal.aborted ? late : new Error('was not aborted'));
      });
    const { client, errors } = run({ slow }, { timeLimitMilliseconds: 20 });
    const { error } = await client.invoke('slow');
    expect(error).toBeInstanceOf(FunctionsRelayError);
    expect([error.context.status, await error.context.json()]).toEqual([
      504,
      { code: 'TIMEOUT', message: 'Function took too long to answer' },
    ]);
    fail();
    await new Promise(setImmediate);
    expect(errors).toEqual([
      [new Error('function "slow" took longer than 20 ms'), 'slow'],
      [late, 'slow'],
    ]);
  });

  test('never receives a body that is too large, with or without a Content-Length', async () => {
    let calls = 0;
    const count: FunctionHandler = () => {
      calls += 1;
      return new Response();
    };
    const { client, send, errors } = run({ count }, { bodyBytes: 10 });
    const { error } = await client.invoke('count', { body: 'eleven byte' });
    expect(error).toBeInstanceOf(FunctionsRelayError);
    const withLength = await send('count', {
      method: 'POST',
      body: 'eleven byte',
      headers: { 'content-length': '11' },
    });
    const { error: none } = await client.invoke('count', { body: 'ten bytes!' });
    expect([error.context.status, withLength.status, none, calls]).toEqual([413, 413, null, 1]);
    expect(errors).toEqual([]);
  });
});

test.each(['unknown', 'constructor', '__proto__', '', '%', 'echo%2Fcallback', '../echo'])(
  'the name "%s" is not found',
  async (name) => {
    const answer = await run({ echo }).send(name || 'http://shop.example/functions/v1/');
    expect([answer.status, answer.headers.get('x-relay-error'), await answer.json()]).toEqual([
      404,
      'true',
      { code: 'NOT_FOUND', message: 'Requested function was not found' },
    ]);
  },
);

describe('pages of other origins', () => {
  test('may call functions with the headers they ask for', async () => {
    const answer = await run({ echo }).send('echo', {
      method: 'OPTIONS',
      headers: {
        origin: 'http://elsewhere.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'apikey, x-retry-count',
      },
    });
    expect(answer.status).toBe(204);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-headers': 'apikey, x-retry-count',
      'access-control-allow-methods': expect.stringContaining('POST'),
    });
  });

  test('may read every response, unless the function sets its own CORS headers', async () => {
    const { send } = run({
      echo,
      choosy: () => new Response('', { headers: { 'access-control-allow-origin': 'http://one.example' } }),
    });
    const origins = await Promise.all(
      ['echo', 'choosy', 'unknown'].map(async (name) =>
        (await send(name)).headers.get('access-control-allow-origin'),
      ),
    );
    expect(origins).toEqual(['*', 'http://one.example', '*']);
  });

  test('reach the function with an OPTIONS request that is not a preflight', async () => {
    const answer = await run({ echo }).send('echo', { method: 'OPTIONS' });
    expect(await answer.json()).toMatchObject({ method: 'OPTIONS' });
  });
});

describe('a call', () => {
  const tokenOf = (header: unknown) =>
    `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${Buffer.from('{}').toString('base64url')}.x`;
  const call = async (
    verifyJwt: DeployedFunction['verifyJwt'],
    token: string | null | undefined,
    { method = 'POST', isSigned = false } = {},
  ) => {
    const service = createFunctionsService({
      functions: { echo: { handler: echo, ...(verifyJwt ? { verifyJwt } : {}) } },
    });
    const answer = await service.fetch(
      new Request('http://shop.example/functions/v1/echo', { method }),
      token === undefined
        ? visitor
        : { ...visitor, tokenError: { token, message: 'not accepted', isSigned } },
    );
    return { status: answer.status, code: answer.headers.get('sb-error-code'), body: await answer.json() };
  };

  test.each([
    [null, 'UNAUTHORIZED_NO_AUTH_HEADER', 'Missing authorization header'],
    ['', 'UNAUTHORIZED_NO_AUTH_HEADER', 'Missing authorization header'],
    ['nonsense', 'UNAUTHORIZED_INVALID_JWT_FORMAT', 'Invalid JWT format'],
    ['a.b.c', 'UNAUTHORIZED_INVALID_JWT_FORMAT', 'Invalid JWT format'],
    [tokenOf({}), 'UNAUTHORIZED_INVALID_JWT_FORMAT', 'Invalid JWT format'],
    [tokenOf({ alg: 'HS256' }), 'UNAUTHORIZED_LEGACY_JWT', 'Invalid JWT'],
    [tokenOf({ alg: 'ES256' }), 'UNAUTHORIZED_ASYMMETRIC_JWT', 'Invalid JWT'],
    [tokenOf({ alg: 'none' }), 'UNAUTHORIZED_UNSUPPORTED_TOKEN_ALGORITHM', 'Unsupported JWT algorithm none'],
  ])('with the token %j is refused by default', async (token, code, message) => {
    expect(await call(undefined, token)).toEqual({
      status: 401,
      code,
      body: { code, message, msg: message },
    });
  });

  test('with a valid token reaches the function, whatever its setting', async () => {
    for (const verifyJwt of [undefined, 'always', 'signature', 'when-sent', 'never'] as const) {
      expect((await call(verifyJwt, undefined)).status).toBe(200);
    }
  });

  test('without a token reaches a function that verifies tokens only when they are sent', async () => {
    expect(await call('when-sent', null)).toMatchObject({ status: 200, body: { role: 'anon' } });
    expect(await call('when-sent', 'nonsense')).toMatchObject({ status: 401 });
  });

  test('with any token reaches a function that never verifies them, as anon', async () => {
    expect(await call('never', 'nonsense')).toMatchObject({ status: 200, body: { role: 'anon' } });
  });

  test('with a signed token without a role reaches a function that verifies only signatures, as anon', async () => {
    const token = tokenOf({ alg: 'ES256' });
    expect(await call('signature', token, { isSigned: true })).toMatchObject({
      status: 200,
      body: { role: 'anon' },
    });
    expect((await call('always', token, { isSigned: true })).status).toBe(401);
    expect((await call('signature', token)).status).toBe(401);
    expect((await call('signature', null)).status).toBe(401);
  });

  test('of OPTIONS needs no token', async () => {
    expect((await call('always', null, { method: 'OPTIONS' })).status).toBe(200);
  });
});
