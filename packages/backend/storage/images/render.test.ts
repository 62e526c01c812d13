import { describe, expect, test } from 'vitest';
import { checkAnonymousRendering, readRenderOptions } from './render.ts';

const check = (query: string, anonymousSides: readonly number[] | null) => {
  const given = new URLSearchParams(query);
  checkAnonymousRendering(
    readRenderOptions((name) => given.get(name), 'querystring'),
    { anonymousSides },
  );
};

describe('an anonymous rendering', () => {
  test.each(['width=120&height=120', 'width=240&height=240', 'width=120&height=120&format=webp'])(
    'of a known side is made: %s',
    (query) => expect(() => check(query, [120, 240])).not.toThrow(),
  );

  test.each([
    '',
    'width=120',
    'width=121&height=121',
    'width=120&height=240',
    'width=120&height=120&quality=79',
    'width=120&height=120&resize=fill',
    'width=120&height=120&gravity=fp&x_offset=0.1&y_offset=0.2',
  ])('of any other kind is rejected: %j', (query) => {
    expect(() => check(query, [120, 240])).toThrow('one of these sides: 120, 240');
    expect(() => check(query, null)).not.toThrow();
  });
});
