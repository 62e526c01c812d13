// Parsing of a request's path, headers, body and preferences.
import { describe, expect, test } from 'vitest';
import { DataError } from '../respond/data-error.ts';
import { chooseMediaType as choose, parseAccept } from './media-type.ts';
import { parseRequest } from './parse.ts';
import { parsePayload, readBody } from './payload.ts';
import { parsePreferences, preferenceApplied } from './preferences.ts';

const codeOf = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    if (error instanceof DataError) return error.body.code;
    throw error;
  }
  return null;
};
const parse = (method: string, path: string, headers: Record<string, string> = {}, body = '') =>
  parseRequest(
    { method, path, search: '', headers: new Headers(headers), body },
    { schemas: ['public', 'shared'] },
  );

describe('a request', () => {
  test('names a relation or a function', () => {
    expect(parse('GET', '/a%20b').target).toEqual({ kind: 'relation', name: 'a b' });
    expect(parse('POST', '/rpc/add', {}, '{"x":1}')).toMatchObject({
      target: { kind: 'function', name: 'add' },
      payload: { keys: ['x'] },
    });
    expect(parse('GET', '/rpc').target).toEqual({ kind: 'relation', name: 'rpc' });
    expect(codeOf(() => parse('GET', '/a/b'))).toBe('PGRST125');
    expect(codeOf(() => parse('GET', '/%ff'))).toBe('PGRST125');
  });

  test('selects its schema with the profile header for its method', () => {
    expect(parse('GET', '/a', { 'accept-profile': 'shared' }).schema).toBe('shared');
    expect(parse('POST', '/a', { 'accept-profile': 'shared' }, '{}').schema).toBe('public');
    expect(parse('POST', '/a', { 'content-profile': 'shared' }, '{}').schema).toBe('shared');
    expect(codeOf(() => parse('GET', '/a', { 'accept-profile': 'platform' }))).toBe('PGRST106');
  });

  test('reads a Range header on GET only', () => {
    expect(parse('GET', '/a', { range: '2-4' }).range).toEqual({ offset: 2, limit: 3 });
    expect(parse('GET', '/a', { range: 'items=2-' }).range).toEqual({ offset: 2, limit: null });
    expect(parse('HEAD', '/a', { range: '2-4' }).range).toBeNull();
    expect(codeOf(() => parse('GET', '/a', { range: '4-2' }))).toBe('PGRST103');
  });
});

describe('a body', () => {
  test('is passed on unchanged', () => {
    const text = '{"big": 12345678901234567890, "a": 1.10}';
    expect(parsePayload(text, null, null)).toEqual({ text, rowCount: 1, isArray: false, keys: ['big', 'a'] });
  });

  test('has rows with the same keys, unless columns are named', () => {
    const uneven = '[{"a":1},{"b":2}]';
    expect(codeOf(() => parsePayload(uneven, null, null))).toBe('PGRST102');
    expect(parsePayload(uneven, null, ['a'])).toMatchObject({ rowCount: 2, keys: ['a'] });
    expect(parsePayload('[]', null, null)).toMatchObject({ rowCount: 0, keys: [] });
    expect(parsePayload('7', null, null)).toMatchObject({ text: '[]', rowCount: 0 });
    expect(codeOf(() => parsePayload('[{"a":1},2]', null, null))).toBe('PGRST102');
  });

  test('may be CSV', () => {
    const csv = 'a,b\r\n1,"x, ""y""\nz"\n,NULL\n';
    expect(parsePayload(csv, 'text/csv; charset=utf-8', null)).toEqual({
      text: JSON.stringify([
        { a: '1', b: 'x, "y"\nz' },
        { a: '', b: null },
      ]),
      rowCount: 2,
      isArray: true,
      keys: ['a', 'b'],
    });
    expect(codeOf(() => parsePayload('a,b\n1', 'text/csv', null))).toBe('PGRST102');
    expect(parsePayload('a,b\n1,', 'text/csv', null).text).toBe('[{"a":"1","b":""}]');
  });

  test('is rejected with any other type', () => {
    expect(codeOf(() => parsePayload('x', 'text/html', null))).toBe('PGRST102');
  });

  test('is read up to its limit, with and without a Content-Length', async () => {
    const stream = new ReadableStream({
      start(controller) {
        for (let part = 0; part < 5; part++) controller.enqueue(new TextEncoder().encode('ä'));
        controller.close();
      },
    });
    const request = (body: BodyInit) =>
      new Request('http://x/', { method: 'POST', body, duplex: 'half' } as RequestInit);
    expect(await readBody(request('äääää'), 10)).toBe('äääää');
    await expect(readBody(request('ääääää'), 10)).rejects.toMatchObject({ status: 413 });
    await expect(readBody(request(stream), 9)).rejects.toMatchObject({ status: 413 });
    await expect(readBody(request(new Uint8Array([255])), 9)).rejects.toMatchObject({ status: 400 });
    expect(await readBody(new Request('http://x/'), 10)).toBe('');
  });
});

describe('preferences', () => {
  test('use the first of each kind and are listed in a fixed order', () => {
    const header =
      'return=representation, count=exact,return=minimal, resolution=merge-duplicates, toString=1';
    const preferences = parsePreferences(header);
    expect(preferences).toMatchObject({
      return: 'representation',
      count: 'exact',
      resolution: 'merge-duplicates',
    });
    expect(preferenceApplied(preferences)).toBe(
      'resolution=merge-duplicates, return=representation, count=exact',
    );
    expect(preferenceApplied(parsePreferences(null))).toBeNull();
  });

  test('must all be known with handling=strict, which max-affected requires', () => {
    expect(codeOf(() => parsePreferences('handling=strict, return=everything'))).toBe('PGRST122');
    expect(codeOf(() => parsePreferences('handling=strict, timezone=Mars/Base'))).toBe('PGRST122');
    expect(parsePreferences('handling=strict, timezone=Africa/Nairobi, max-affected=3')).toMatchObject({
      timeZone: 'Africa/Nairobi',
      maxAffected: 3,
    });
    expect(parsePreferences('max-affected=3').maxAffected).toBeNull();
  });
});

test('the format is the first one with the highest weight', () => {
  const choices = {
    own: new Map(),
    general: new Map(),
    geoJsonOf: null,
    allowsPlan: false,
    isRoot: false,
  };
  const chooseMediaType = (accept: string | null) => choose(parseAccept(accept), choices);
  expect(chooseMediaType(null).format).toBe('json');
  expect(chooseMediaType('text/csv;q=0.5, application/vnd.pgrst.object+json').format).toBe('object');
  expect(chooseMediaType('text/html, text/csv').format).toBe('csv');
  expect(chooseMediaType('text/html, */*;q=0.1').format).toBe('json');
  expect(chooseMediaType('application/vnd.pgrst.object+json;nulls=stripped').isNullStripped).toBe(true);
  expect(codeOf(() => chooseMediaType('text/html, application/json;q=0'))).toBe('PGRST107');
});
