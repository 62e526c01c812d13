// Sign-in with a wallet, by the official client over HTTP.
import { ed25519 } from '@noble/curves/ed25519.js';
import bs58 from 'bs58';
import { decodeJwt } from 'jose';
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts';
import { createSiweMessage, generateSiweNonce } from 'viem/siwe';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
import { testDatabases } from '../testing/throwaway.ts';
import { clientOf } from './auth-client.ts';

const site = 'https://shop.example';
type Siwe = Parameters<typeof createSiweMessage>[0];

function solanaWallet() {
  const secret = ed25519.utils.randomSecretKey();
  const address = bs58.encode(ed25519.getPublicKey(secret));
  return { address, sign: (text: string) => ed25519.sign(new TextEncoder().encode(text), secret) };
}

const solanaMessage = (address: string, more: { uri?: string; domain?: string; lines?: string[] } = {}) =>
  [
    `${more.domain ?? 'shop.example'} wants you to sign in with your Solana account:`,
    address,
    '',
    'Karibu.',
    '',
    'Version: 1',
    `URI: ${more.uri ?? `${site}/in`}`,
    `Issued At: ${new Date().toISOString()}`,
    `Nonce: ${generateSiweNonce()}`,
    'Chain ID: solana:mainnet',
    ...(more.lines ?? []),
  ].join('\n');

describe.each(testDatabases())('a wallet on %s', (kind) => {
  let service: OpenAuthService;
  let closed: OpenAuthService | null = null;

  beforeAll(async () => {
    service = await openAuthService(kind, { siteUrl: site, web3: { ethereum: true, solana: true } });
  });
  afterEach(() => {
    expect(service.errors.splice(0)).toEqual([]);
  });
  afterAll(async () => {
    await Promise.all([service.close(), closed?.close()]);
  });

  const siwe = (account: PrivateKeyAccount, change: Partial<Siwe> = {}) =>
    createSiweMessage({
      domain: 'shop.example',
      address: account.address,
      uri: `${site}/in`,
      version: '1',
      chainId: 1,
      nonce: generateSiweNonce(),
      statement: 'Karibu.',
      ...change,
    });

  async function signInWithEthereum(account: PrivateKeyAccount, message: string) {
    const signature = await account.signMessage({ message });
    return clientOf(service).signInWithWeb3({ chain: 'ethereum', message, signature });
  }

  const raw = async (body: Record<string, unknown>) => {
    const answer = await fetch(`${service.url}/token?grant_type=web3`, {
      method: 'POST',
      headers: { apikey: service.keys.publishable, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: answer.status, ...(await answer.json()) };
  };

  test('of Ethereum signs up a new user, and signs in the same one the next time', async () => {
    const account = privateKeyToAccount(generatePrivateKey());
    const first = await signInWithEthereum(account, siwe(account));
    expect(first.error).toBeNull();
    const { user, session } = first.data;
    expect(user).toMatchObject({
      email: '',
      phone: '',
      is_anonymous: false,
      role: 'authenticated',
      app_metadata: { provider: 'web3', providers: ['web3'] },
    });
    expect(user?.identities).toMatchObject([
      {
        provider: 'web3',
        id: `web3:ethereum:${account.address}`,
        identity_data: {
          sub: `web3:ethereum:${account.address}`,
          custom_claims: {
            address: account.address,
            chain: 'ethereum',
            network: '1',
            domain: 'shop.example',
            statement: 'Karibu.',
          },
        },
      },
    ]);
    expect(decodeJwt(session?.access_token ?? '')).toMatchObject({
      aal: 'aal1',
      amr: [{ method: 'web3' }],
      sub: user?.id,
    });

    const lower = siwe(account).replace(account.address, account.address.toLowerCase());
    const second = await signInWithEthereum(account, lower);
    expect(second.data.user?.id).toBe(user?.id);
    expect(second.data.user?.identities).toHaveLength(1);
  });

  test('of Ethereum can be any EIP-1193 provider', async () => {
    const account = privateKeyToAccount(generatePrivateKey());
    const wallet = {
      address: account.address,
      on: () => {},
      removeListener: () => {},
      request: async ({ method, params }: { method: string; params?: unknown }) => {
        if (method === 'eth_requestAccounts') return [account.address];
        if (method === 'eth_chainId') return '0x89';
        const [message] = params as [`0x${string}`];
        return account.signMessage({ message: { raw: message } });
      },
    };
    const { data, error } = await clientOf(service).signInWithWeb3({
      chain: 'ethereum',
      wallet,
      options: { url: `${site}/in` },
    });
    expect(error).toBeNull();
    expect(data.user?.identities?.[0]?.identity_data?.custom_claims).toMatchObject({ network: '137' });
  });

  test('of Solana signs a user in, by its own interface or by a signed message', async () => {
    const wallet = solanaWallet();
    const message = solanaMessage(wallet.address);
    const first = await clientOf(service).signInWithWeb3({
      chain: 'solana',
      message,
      signature: wallet.sign(message),
    });
    expect(first.error).toBeNull();
    expect(first.data.user?.identities?.[0]?.id).toBe(`web3:solana:${wallet.address}`);

    const second = await clientOf(service).signInWithWeb3({
      chain: 'solana',
      statement: 'Karibu tena.',
      wallet: {
        publicKey: { toBase58: () => wallet.address },
        signMessage: async (bytes: Uint8Array) => wallet.sign(new TextDecoder().decode(bytes)),
      },
      options: { url: `${site}/in`, signInWithSolana: { resources: [`${site}/terms`] } },
    });
    expect(second.error).toBeNull();
    expect(second.data.user?.id).toBe(first.data.user?.id);
  });

  test('signs in once per message', async () => {
    const account = privateKeyToAccount(generatePrivateKey());
    const message = siwe(account);
    expect((await signInWithEthereum(account, message)).error).toBeNull();
    expect(
      await raw({ chain: 'ethereum', message, signature: await account.signMessage({ message }) }),
    ).toEqual({
      status: 400,
      error: 'invalid_grant',
      error_description: 'Signed Ethereum message has already been used',
    });
  });

  test('cannot sign for another wallet', async () => {
    const account = privateKeyToAccount(generatePrivateKey());
    const other = privateKeyToAccount(generatePrivateKey());
    const message = siwe(account);
    const { error } = await clientOf(service).signInWithWeb3({
      chain: 'ethereum',
      message,
      signature: await other.signMessage({ message }),
    });
    expect(error).toMatchObject({ status: 400, message: 'Signature does not match address in message' });
    const [wallet, thief] = [solanaWallet(), solanaWallet()];
    const text = solanaMessage(wallet.address);
    const stolen = await clientOf(service).signInWithWeb3({
      chain: 'solana',
      message: text,
      signature: thief.sign(text),
    });
    expect(stolen.error).toMatchObject({
      status: 400,
      message: 'Signature does not match address in message',
    });
  });

  const minutes = (count: number) => new Date(Date.now() + count * 60_000);
  test.each<[string, Partial<Siwe>, string]>([
    [
      'for plain http',
      { uri: 'http://shop.example/in' },
      'Signed Ethereum message is using URI which does not use HTTPS',
    ],
    [
      'for another site',
      { uri: 'https://evil.example/in', domain: 'evil.example' },
      'Signed Ethereum message is using URI which is not allowed on this server, message was signed for another app',
    ],
    [
      'requested by another site',
      { domain: 'evil.example' },
      'Signed Ethereum message is using a Domain that does not match the one in URI which is not allowed on this server',
    ],
    ['not valid yet', { notBefore: minutes(2) }, 'Signed Ethereum message becomes valid in the future'],
    [
      'that has expired',
      { issuedAt: minutes(-3), expirationTime: minutes(-1) },
      'Signed Ethereum message is expired',
    ],
    ['from long ago', { issuedAt: minutes(-11) }, 'Ethereum message was issued too long ago'],
    ['from far ahead', { issuedAt: minutes(11) }, 'Ethereum message was issued too far in the future'],
  ])('is rejected with a message %s', async (_, change, message) => {
    const account = privateKeyToAccount(generatePrivateKey());
    const { error } = await signInWithEthereum(account, siwe(account, change));
    expect(error).toMatchObject({ status: 400, message });
  });

  test.each<[string, Record<string, unknown>, string, string]>([
    ['an unknown chain', { chain: 'bitcoin' }, 'web3_unsupported_chain', 'Unsupported chain'],
    [
      'a very short message',
      { chain: 'ethereum', message: 'hi' },
      'validation_failed',
      'message is too short',
    ],
    [
      'a text that is too long',
      { chain: 'ethereum', message: 'é'.repeat(10_241) },
      'validation_failed',
      'message must not exceed 20KB',
    ],
    [
      'half a signature',
      { chain: 'ethereum', message: 'x'.repeat(64), signature: '0xabcd' },
      'validation_failed',
      'signature must be 65 bytes long, encoded as a 130 character-long hexadecimal string',
    ],
    [
      'half a Solana signature',
      { chain: 'solana', message: 'x'.repeat(64), signature: 'abcd' },
      'validation_failed',
      'signature must be 64 bytes encoded as base64 with or without padding',
    ],
    [
      'a signature with invalid characters',
      { chain: 'solana', message: 'x'.repeat(64), signature: '!'.repeat(88) },
      'validation_failed',
      'signature does not contain valid base64 characters',
    ],
    [
      'a text that is not a message',
      { chain: 'ethereum', message: 'x'.repeat(64), signature: `0x${'1'.repeat(130)}` },
      'validation_failed',
      'siwe: message needs at least 6 lines',
    ],
  ])('is rejected with %s', async (_, body, errorCode, msg) => {
    expect(await raw(body)).toEqual({ status: 400, code: 400, error_code: errorCode, msg });
  });

  test('is rejected if its chain is disabled, and signs up no one if sign-up is disabled', async () => {
    closed = await openAuthService(kind, { siteUrl: site, isSignupOpen: false, web3: { ethereum: true } });
    const client = clientOf(closed);
    const wallet = solanaWallet();
    const text = solanaMessage(wallet.address);
    const off = await client.signInWithWeb3({ chain: 'solana', message: text, signature: wallet.sign(text) });
    expect(off.error).toMatchObject({
      status: 422,
      code: 'web3_provider_disabled',
      message: 'Solana Web3 provider is disabled',
    });
    const account = privateKeyToAccount(generatePrivateKey());
    const message = siwe(account);
    const signature = await account.signMessage({ message });
    const newcomer = await client.signInWithWeb3({ chain: 'ethereum', message, signature });
    expect(newcomer.error).toMatchObject({ status: 422, code: 'signup_disabled' });
  });
});
