// Parses the text that a wallet signs: EIP-4361 (Sign-In with Ethereum) and its Solana equivalent, strictly.

export type Chain = 'ethereum' | 'solana';

/** A parsed message; absent fields are null. */
export interface SignedMessage {
  chain: Chain;
  domain: string;
  /** As written. */
  address: string;
  statement: string | null;
  uri: URL;
  chainId: string | null;
  nonce: string | null;
  issuedAt: Date;
  expirationTime: Date | null;
  notBefore: Date | null;
}

/** A text that is not a valid message. */
export class MessageError extends Error {
  override readonly name = 'MessageError';
}

interface Dialect {
  /** Prefix of its errors. */
  prefix: string;
  header: string;
  address: RegExp;
  addressFault: string;
  chainId: RegExp;
}

const dialects: Record<Chain, Dialect> = {
  ethereum: {
    prefix: 'siwe',
    header: ' wants you to sign in with your Ethereum account:',
    address: /^0x[a-fA-F0-9]{40}$/,
    addressFault: 'wallet address is not a valid Ethereum address',
    chainId: /^[1-9]\d{0,15}$/,
  },
  solana: {
    prefix: 'siws',
    header: ' wants you to sign in with your Solana account:',
    address: /^[a-zA-Z0-9]{32,44}$/,
    addressFault: 'wallet address is not in base58 format',
    // Wallets write the cluster with or without the chain's name.
    chainId: /^(?:solana:)?(?:main|dev|test|local)net$/,
  },
};

const domainPattern =
  /^(?:localhost|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,})(?::\d{1,5})?$/;
const timePattern = /^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/;

/**
 * Parses a message. Fields may have any order and occur once; blank lines between them are ignored.
 * @throws MessageError
 */
export function parseSignedMessage(chain: Chain, raw: string): SignedMessage {
  const { prefix, header, address: addressPattern, addressFault, chainId } = dialects[chain];
  const fail = (reason: string): never => {
    throw new MessageError(`${prefix}: ${reason}`);
  };
  const lines = raw.split('\n');
  if (lines.length < 6) fail('message needs at least 6 lines');
  const [first = '', second = '', third = '', fourth = '', fifth = ''] = lines;
  if (!first.endsWith(header)) fail(`message first line does not end in "${header}"`);
  const domain = first.slice(0, -header.length);
  if (!domainPattern.test(domain)) fail('domain in first line of message is not valid');
  if (!addressPattern.test(second)) fail(addressFault);
  if (third !== '') fail('third line must be empty');
  const hasStatement = fourth !== '' && fifth === '';

  const fields = readFields(lines, hasStatement ? 5 : 3, fail);
  const time = (name: string): Date | null => {
    const value = fields.get(name);
    if (value === undefined) return null;
    const moment = new Date(timePattern.test(value) ? value : Number.NaN);
    if (Number.isNaN(moment.getTime())) fail(`${name} is not a valid ISO8601 timestamp`);
    return moment;
  };
  const version = fields.get('Version') ?? '';
  if (version !== '1') fail(`Version value is not supported, expected 1 got "${version}"`);
  const issuedAt = time('Issued At') ?? fail('Issued At is not specified');
  const [expirationTime, notBefore] = [time('Expiration Time'), time('Not Before')];
  const uri = fields.get('URI') ?? fail('URI is not specified');
  if (!URL.canParse(uri)) fail('URI is not valid');
  const named = fields.get('Chain ID') || null;
  if (named !== null && !chainId.test(named)) fail('Chain ID is not valid');
  if (chain === 'ethereum' && fields.get('Chain ID') === '') fail('Chain ID is not valid');
  if (expirationTime && issuedAt > expirationTime) fail('Issued At is after Expiration Time');
  if (expirationTime && notBefore && notBefore > expirationTime) fail('Not Before is after Expiration Time');
  return {
    chain,
    domain,
    address: second,
    statement: hasStatement ? fourth : null,
    uri: new URL(uri),
    chainId: named,
    nonce: fields.get('Nonce') ?? null,
    issuedAt,
    expirationTime,
    notBefore,
  };
}

function readFields(
  lines: readonly string[],
  start: number,
  fail: (reason: string) => never,
): Map<string, string> {
  const fields = new Map<string, string>();
  let resources: number | null = null;
  for (const [index, line] of lines.entries()) {
    if (index < start || line.trim() === '') continue;
    if (resources !== null && line.startsWith('- ')) {
      if (!URL.canParse(line.slice(2).trim())) fail(`Resource at position ${resources} has invalid URI`);
      resources += 1;
      continue;
    }
    // One official client omits the colon.
    if (line === 'Resources:' || line === 'Resources') {
      if (resources !== null) fail(`encountered unparsable line at index ${index}`);
      resources = 0;
      continue;
    }
    const [, name, value] = /^([A-Za-z ]+):(.*)$/.exec(line) ?? [];
    // A repeated field could mean one thing to the wallet and another to us.
    if (name === undefined || value === undefined || fields.has(name)) {
      return fail(`encountered unparsable line at index ${index}`);
    }
    fields.set(name, value.trim());
  }
  return fields;
}
