// Valid signatures from the wallets' libraries, and invalid ones.
import { ed25519 } from '@noble/curves/ed25519.js';
import bs58 from 'bs58';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { describe, expect, test } from 'vitest';
import { isSignedByEthereum, isSignedBySolana, readSolanaSignature } from './wallet-signature.ts';

describe('an Ethereum signature', () => {
  const account = privateKeyToAccount(generatePrivateKey());

  test('matches its account for every spelling of the address', async () => {
    const signature = await account.signMessage({ message: 'hello' });
    expect(await isSignedByEthereum('hello', account.address, signature)).toBe(true);
    expect(await isSignedByEthereum('hello', account.address.toLowerCase(), signature.slice(2))).toBe(true);
  });

  test('matches one text and one account only', async () => {
    const signature = await account.signMessage({ message: 'hello' });
    const other = privateKeyToAccount(generatePrivateKey()).address;
    expect(await isSignedByEthereum('hello!', account.address, signature)).toBe(false);
    expect(await isSignedByEthereum('hello', other, signature)).toBe(false);
  });

  test('that is not a point on the curve or has an unknown recovery byte is rejected', async () => {
    const signature = await account.signMessage({ message: 'hello' });
    for (const forged of [
      `0x${'00'.repeat(65)}`,
      `0x${'ff'.repeat(65)}`,
      `${signature.slice(0, -2)}63`,
      '0x',
    ]) {
      expect(await isSignedByEthereum('hello', account.address, forged)).toBe(false);
    }
  });
});

describe('a Solana signature', () => {
  const secret = ed25519.utils.randomSecretKey();
  const message = { address: bs58.encode(ed25519.getPublicKey(secret)), domain: 'shop.example' };
  const sign = (bytes: Uint8Array) => ed25519.sign(bytes, secret);

  test('matches its key and text only', () => {
    const signature = sign(Buffer.from('hello'));
    expect(isSignedBySolana('hello', message, signature)).toBe(true);
    expect(isSignedBySolana('hello!', message, signature)).toBe(false);
    const other = bs58.encode(ed25519.getPublicKey(ed25519.utils.randomSecretKey()));
    expect(isSignedBySolana('hello', { ...message, address: other }, signature)).toBe(false);
  });

  test('of a Ledger device covers the text in its envelope', () => {
    const domain = Buffer.alloc(32);
    domain.write(message.domain);
    const envelope = Buffer.concat([
      Buffer.from('\xffsolana offchain\0', 'latin1'),
      domain,
      Buffer.from([0, 1]),
      bs58.decode(message.address),
      Buffer.from([5, 0]),
      Buffer.from('hello'),
    ]);
    expect(isSignedBySolana('hello', message, sign(envelope))).toBe(true);
    expect(isSignedBySolana('hello', { ...message, domain: 'other.example' }, sign(envelope))).toBe(false);
  });

  test('of a key of small order, which verifies any text, is rejected', () => {
    const identity = new Uint8Array(32);
    identity[0] = 1;
    const forged = new Uint8Array(64);
    forged[0] = 1;
    expect(isSignedBySolana('hello', { ...message, address: bs58.encode(identity) }, forged)).toBe(false);
  });

  test('is decoded from base64 and base64url only', () => {
    const signature = Buffer.from(sign(Buffer.from('hello')));
    const [standard, url] = [signature.toString('base64'), signature.toString('base64url')];
    expect(readSolanaSignature(standard)).toEqual(signature);
    expect(readSolanaSignature(url)).toEqual(signature);
    expect(readSolanaSignature(`${url.slice(0, -1)}!`)).toBeNull();
    expect(readSolanaSignature(url.slice(1))).toBeNull();
  });
});
