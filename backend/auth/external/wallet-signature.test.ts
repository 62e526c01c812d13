// Signatures made by the wallets' own libraries, and what must not pass for one.
import { ed25519 } from '@noble/curves/ed25519.js';
import bs58 from 'bs58';
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts';
import { describe, expect, test } from 'vitest';
import { isSignedByEthereum, isSignedBySolana, readSolanaSignature } from './wallet-signature.ts';

describe('an Ethereum signature', () => {
  const account = privateKeyToAccount(generatePrivateKey());

  test('belongs to the account that made it, however its address is spelled', async () => {
    const signature = await account.signMessage({ message: 'hello' });
    expect(await isSignedByEthereum('hello', account.address, signature)).toBe(true);
    expect(await isSignedByEthereum('hello', account.address.toLowerCase(), signature.slice(2))).toBe(true);
  });

  test('is for one text and one account', async () => {
    const signature = await account.signMessage({ message: 'hello' });
    const other = privateKeyToAccount(generatePrivateKey()).address;
    expect(await isSignedByEthereum('hello!', account.address, signature)).toBe(false);
    expect(await isSignedByEthereum('hello', other, signature)).toBe(false);
  });

  test('that is no point on the curve, or has an odd recovery byte, is none', async () => {
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

  test('belongs to the key that made it, for one text', () => {
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

  test('of a key of small order, for which anything is signed, is none', () => {
    const identity = new Uint8Array(32);
    identity[0] = 1;
    const forged = new Uint8Array(64);
    forged[0] = 1;
    expect(isSignedBySolana('hello', { ...message, address: bs58.encode(identity) }, forged)).toBe(false);
  });

  test('is read from base64 and base64url, and from nothing else', () => {
    const signature = Buffer.from(sign(Buffer.from('hello')));
    const [standard, url] = [signature.toString('base64'), signature.toString('base64url')];
    expect(readSolanaSignature(standard)).toEqual(signature);
    expect(readSolanaSignature(url)).toEqual(signature);
    expect(readSolanaSignature(`${url.slice(0, -1)}!`)).toBeNull();
    expect(readSolanaSignature(url.slice(1))).toBeNull();
  });
});
