// Sign-in messages as written by the official client, viem and the Wallet Standard.
import fc from 'fast-check';
import { createSiweMessage } from 'viem/siwe';
import { describe, expect, test } from 'vitest';
import { MessageError, parseSignedMessage } from './signed-message.ts';

const address = '0xA0Cf798816D4b9b9866b5330EEa46a18382f251e';
const solana = '4nYq9zC3VdBv7kTXgqJp2mA6wRfE8sHhLuN5oPiQbWxT';
const fields = [
  'URI: https://shop.example/sign-in',
  'Version: 1',
  'Chain ID: 1',
  'Issued At: 2026-01-02T03:04:05.678Z',
];
const ethereum = (...lines: string[]) =>
  [`shop.example wants you to sign in with your Ethereum account:`, address, '', ...lines].join('\n');

describe('a message', () => {
  test('from viem is parsed completely', () => {
    const raw = createSiweMessage({
      domain: 'shop.example:8443',
      address,
      statement: 'Karibu.',
      uri: 'https://shop.example:8443/in',
      version: '1',
      chainId: 137,
      nonce: 'abcdefgh1',
      issuedAt: new Date('2026-01-02T03:04:05.678Z'),
      expirationTime: new Date('2026-01-02T04:00:00Z'),
      notBefore: new Date('2026-01-02T03:00:00Z'),
      requestId: 'r:1',
      resources: ['https://shop.example/terms', 'ipfs://abc'],
    });
    expect(parseSignedMessage('ethereum', raw)).toEqual({
      chain: 'ethereum',
      domain: 'shop.example:8443',
      address,
      statement: 'Karibu.',
      uri: new URL('https://shop.example:8443/in'),
      chainId: '137',
      nonce: 'abcdefgh1',
      issuedAt: new Date('2026-01-02T03:04:05.678Z'),
      expirationTime: new Date('2026-01-02T04:00:00Z'),
      notBefore: new Date('2026-01-02T03:00:00Z'),
    });
  });

  test('requires neither statement nor nonce, which the official client omits', () => {
    const { statement, nonce } = parseSignedMessage('ethereum', ethereum('', ...fields));
    expect([statement, nonce]).toEqual([null, null]);
  });

  test('for Solana may have its fields in any order, and a cluster', () => {
    const raw = [
      'localhost:3000 wants you to sign in with your Solana account:',
      solana,
      '',
      'Version: 1',
      'URI: http://localhost:3000/',
      'Issued At: 2026-01-02T03:04:05Z',
      'Chain ID: solana:devnet',
      'Resources',
      '- https://shop.example/terms',
    ].join('\n');
    const message = parseSignedMessage('solana', raw);
    expect([message.domain, message.address, message.chainId, message.uri.href]).toEqual([
      'localhost:3000',
      solana,
      'solana:devnet',
      'http://localhost:3000/',
    ]);
  });

  test.each([
    ['too few lines', 'a\nb', 'siwe: message needs at least 6 lines'],
    ['another header', ethereum('', ...fields).replace('Ethereum', 'Other'), 'first line does not end'],
    ['a domain with a path', ethereum('', ...fields).replace('shop.example ', 'shop.example/x '), 'domain'],
    ['a domain of another scheme', `https://${ethereum('', ...fields)}`, 'domain'],
    ['a short address', ethereum('', ...fields).replace(address, '0x12'), 'wallet address'],
    ['no empty line', ethereum(...fields, ...fields).replace('\n\n', '\nx\n'), 'third line must be empty'],
    ['an invalid URI', ethereum('', ...fields).replace('https://shop', 'shop shop'), 'URI is not valid'],
    ['no URI', ethereum('', 'Statement: a', ...fields.slice(1)), 'URI is not specified'],
    ['a repeated field', ethereum('', ...fields, 'URI: https://other.example'), 'unparsable line at index 8'],
    ['an unknown line', ethereum('', ...fields, 'hello'), 'unparsable line at index 8'],
    ['version 2', ethereum('', ...fields).replace('Version: 1', 'Version: 2'), 'expected 1 got "2"'],
    ['no time of issue', ethereum('', ...fields.slice(0, 3), 'Nonce: a'), 'Issued At is not specified'],
    [
      'a time without a zone',
      ethereum('', ...fields.slice(0, 3), 'Issued At: 2026-01-02T03:04:05'),
      'Issued At is not a valid',
    ],
    [
      'a time in words',
      ethereum('', ...fields.slice(0, 3), 'Issued At: tomorrow'),
      'Issued At is not a valid',
    ],
    [
      'an expiry before its issue',
      ethereum('', ...fields, 'Expiration Time: 2026-01-02T03:00:00Z'),
      'Issued At is after Expiration Time',
    ],
    [
      'an expiry before its validity',
      ethereum('', ...fields, 'Expiration Time: 2026-01-03T00:00:00Z', 'Not Before: 2026-01-04T00:00:00Z'),
      'Not Before is after Expiration Time',
    ],
    ['chain zero', ethereum('', ...fields).replace('Chain ID: 1', 'Chain ID: 0'), 'Chain ID is not valid'],
    ['a resource that is not a URI', ethereum('', ...fields, 'Resources:', '- ::'), 'Resource at position 0'],
  ])('with %s is rejected', (_, raw, reason) => {
    expect(() => parseSignedMessage('ethereum', raw)).toThrow(reason);
  });

  test('of any other text is rejected with a MessageError', () => {
    const lines = fc.array(fc.oneof(fc.string(), fc.constantFrom(...fields, '', address)), { maxLength: 12 });
    fc.assert(
      fc.property(lines, fc.constantFrom('ethereum', 'solana'), (some, chain) => {
        const raw = ethereum(...some);
        try {
          parseSignedMessage(chain as 'ethereum', raw);
        } catch (error) {
          expect(error).toBeInstanceOf(MessageError);
        }
      }),
    );
  });
});
