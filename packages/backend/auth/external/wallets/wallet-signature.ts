// Verifies signatures of wallets, with the curves of libraries.
import { ed25519 } from '@noble/curves/ed25519.js';
import bs58 from 'bs58';
import type { SignedMessage } from './signed-message.ts';

/** `0x`, 65 bytes in hexadecimal; the prefix may be missing. */
export const isEthereumSignature = (signature: string): boolean =>
  /^(?:0x)?[0-9a-fA-F]{130}$/.test(signature);

/**
 * Whether an externally owned account signed a text with EIP-191 (`personal_sign`).
 * @param address as the message names it
 * @param signature 65 bytes in hexadecimal
 */
export async function isSignedByEthereum(raw: string, address: string, signature: string): Promise<boolean> {
  if (!isEthereumSignature(signature)) return false;
  const hex = signature.startsWith('0x') ? signature : `0x${signature}`;
  // Loaded on first use: it is large, and most installations never need it.
  const { verifyMessage } = await import('viem/utils');
  try {
    // The library refuses addresses without the EIP-55 spelling.
    return await verifyMessage({
      address: address.toLowerCase() as `0x${string}`,
      message: raw,
      signature: hex as `0x${string}`,
    });
  } catch {
    return false;
  }
}

/**
 * Whether a Solana account signed a text: as is, or wrapped as Ledger devices wrap messages (Solana's off-chain message
 * signing, version 0).
 * @param signature 64 bytes
 */
export function isSignedBySolana(
  raw: string,
  message: Pick<SignedMessage, 'address' | 'domain'>,
  signature: Uint8Array,
): boolean {
  const publicKey = bs58.decodeUnsafe(message.address);
  if (publicKey?.length !== 32 || signature.length !== 64) return false;
  const text = Buffer.from(raw);
  if (text.length > 0xffff) return false;
  const length = Buffer.alloc(2);
  length.writeUInt16LE(text.length);
  const domain = Buffer.alloc(32);
  Buffer.from(message.domain).copy(domain);
  const wrapped = Buffer.concat([
    Buffer.from([0xff]),
    Buffer.from('solana offchain'),
    Buffer.from([0]),
    domain,
    Buffer.from([0, 1]),
    publicKey,
    length,
    text,
  ]);
  // Strict RFC 8032: the looser rule accepts keys for which any text verifies.
  const isSigned = (bytes: Uint8Array) => {
    try {
      return ed25519.verify(signature, bytes, publicKey, { zip215: false });
    } catch {
      return false;
    }
  };
  return isSigned(text) || isSigned(wrapped);
}

/** Decodes 64 bytes of base64 or base64url, with or without padding; null for anything else. */
export function readSolanaSignature(encoded: string): Uint8Array | null {
  if (!/^[A-Za-z0-9+/_-]{86}(?:==)?$/.test(encoded)) return null;
  return Buffer.from(encoded, 'base64url');
}
