// POST /token?grant_type=web3: signs in with a message signed by a wallet, accepted once.
import { createHash } from 'node:crypto';
import type { Session } from '../../../database/database.ts';
import { AuthError, invalid, OAuthError } from '../../auth-error.ts';
import { type AuthContext, type AuthRequest, at } from '../../context.ts';
import { limitNetwork } from '../../limits.ts';
import { text } from '../../requests/fields.ts';
import { isRedirectAllowed } from '../../requests/redirects.ts';
import { answerTokens, startSession } from '../../sessions/sessions.ts';
import { findIdentity } from '../../users/users.ts';
import { accountOf, inTransaction, LateRefusal } from '../accounts.ts';
import { type Chain, MessageError, parseSignedMessage, type SignedMessage } from './signed-message.ts';
import {
  isEthereumSignature,
  isSignedByEthereum,
  isSignedBySolana,
  readSolanaSignature,
} from './wallet-signature.ts';

const chainNames: Record<Chain, string> = { ethereum: 'Ethereum', solana: 'Solana' };

/**
 * Signs in the owner of a wallet.
 * @throws AuthError web3_provider_disabled, web3_unsupported_chain, validation_failed; OAuthError invalid_grant
 */
export async function web3Grant(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { web3 } = context.settings;
  if (!web3.ethereum && !web3.solana) throw disabled('Web3 provider is disabled');
  const chain = text(request.body, 'chain');
  if (chain !== 'ethereum' && chain !== 'solana') {
    throw new AuthError(400, 'web3_unsupported_chain', 'Unsupported chain');
  }
  if (!web3[chain]) throw disabled(`${chainNames[chain]} Web3 provider is disabled`);
  await limitNetwork(context, 'web3', request.ip);

  const raw = text(request.body, 'message', 32_768);
  const message = await readSigned(chain, raw, text(request.body, 'signature'));
  checkPlace(message, context);
  checkTime(message, context);
  const tokens = await inTransaction(context, async (tx) => {
    await useOnce(tx, context, raw, message);
    const user = await accountOf(tx, context, await profileOf(tx, message), request);
    return user instanceof LateRefusal ? user : startSession(tx, context, { user, method: 'web3', request });
  });
  return answerTokens(tokens);
}

async function readSigned(chain: Chain, raw: string, signature: string): Promise<SignedMessage> {
  const length = Buffer.byteLength(raw);
  if (length < 64) throw invalid('message is too short');
  if (length > 20 * 1024) throw invalid('message must not exceed 20KB');
  if (chain === 'ethereum' && !isEthereumSignature(signature)) {
    throw invalid('signature must be 65 bytes long, encoded as a 130 character-long hexadecimal string');
  }
  if (chain === 'solana' && signature.length !== 86 && signature.length !== 88) {
    throw invalid('signature must be 64 bytes encoded as base64 with or without padding');
  }
  const bytes = chain === 'solana' ? readSolanaSignature(signature) : null;
  if (chain === 'solana' && !bytes) throw invalid('signature does not contain valid base64 characters');
  const message = parse(chain, raw);
  const isSigned = bytes
    ? isSignedBySolana(raw, message, bytes)
    : await isSignedByEthereum(raw, message.address, signature);
  if (!isSigned) throw refused('Signature does not match address in message');
  return message;
}

function parse(chain: Chain, raw: string): SignedMessage {
  try {
    return parseSignedMessage(chain, raw);
  } catch (error) {
    if (error instanceof MessageError) throw invalid(error.message);
    throw error;
  }
}

function checkPlace({ chain, uri, domain }: SignedMessage, { settings }: AuthContext): void {
  const name = `Signed ${chainNames[chain]} message`;
  const isLocal = uri.hostname === 'localhost' && uri.protocol === 'http:';
  if (uri.protocol !== 'https:' && !isLocal) {
    throw refused(`${name} is using URI which does not use HTTPS`);
  }
  if (!isRedirectAllowed(uri.href, settings)) {
    throw refused(
      `${name} is using URI which is not allowed on this server, message was signed for another app`,
    );
  }
  const isOwnDomain = uri.host === domain.toLowerCase() && isRedirectAllowed(`https://${domain}/`, settings);
  if (uri.hostname !== 'localhost' && !isOwnDomain) {
    throw refused(
      `${name} is using a Domain that does not match the one in URI which is not allowed on this server`,
    );
  }
}

function checkTime(message: SignedMessage, context: AuthContext): void {
  const chain = chainNames[message.chain];
  const now = context.now().getTime();
  const age = (now - message.issuedAt.getTime()) / 1000;
  const { maximumAge } = context.settings.web3;
  if (message.notBefore && now < message.notBefore.getTime()) {
    throw refused(`Signed ${chain} message becomes valid in the future`);
  }
  if (message.expirationTime && now > message.expirationTime.getTime()) {
    throw refused(`Signed ${chain} message is expired`);
  }
  if (age > maximumAge) throw refused(`${chain} message was issued too long ago`);
  if (age < -maximumAge) throw refused(`${chain} message was issued too far in the future`);
}

async function useOnce(
  tx: Session,
  context: AuthContext,
  raw: string,
  { chain, issuedAt }: SignedMessage,
): Promise<void> {
  // A message dated ahead is valid for twice as long.
  const lifetime = issuedAt.getTime() - context.now().getTime() + context.settings.web3.maximumAge * 1000;
  const { rowCount } = await tx.query(
    `insert into auth.web3_messages_seen (message_hash, expires_at) values ($1, $2::timestamptz)
     on conflict do nothing`,
    [createHash('sha256').update(`${chain}\0${raw}`).digest('hex'), at(context, lifetime / 1000 + 1)],
  );
  if (rowCount === 0) throw refused(`Signed ${chainNames[chain]} message has already been used`);
}

async function profileOf(tx: Session, message: SignedMessage) {
  const subject = await subjectOf(tx, message);
  return {
    provider: 'web3',
    subject,
    email: null,
    isEmailVerified: false,
    isEmailOptional: true,
    data: {
      sub: subject,
      email_verified: false,
      phone_verified: false,
      custom_claims: {
        address: message.address,
        chain: message.chain,
        network: message.chainId ?? '',
        domain: message.domain,
        statement: message.statement ?? '',
      },
    },
  };
}

/** An Ethereum address has several spellings (EIP-55); the first one names the account. */
async function subjectOf(tx: Session, { chain, address }: SignedMessage): Promise<string> {
  const written = `web3:${chain}:${address}`;
  if (chain === 'solana') return written;
  const { getAddress } = await import('viem/utils');
  const lower = address.toLowerCase() as `0x${string}`;
  for (const spelling of [address, lower, getAddress(lower)]) {
    const subject = `web3:${chain}:${spelling}`;
    if (await findIdentity(tx, 'web3', subject)) return subject;
  }
  return written;
}

const refused = (reason: string) => new OAuthError('invalid_grant', reason);
const disabled = (reason: string) => new AuthError(422, 'web3_provider_disabled', reason);
