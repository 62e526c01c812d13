// An authenticator and its browser in software, for tests: real keys and signatures, and ways to falsify each part.
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';
import { isoCBOR } from '@simplewebauthn/server/helpers';

interface StoredCredential {
  id: string;
  privateKey: KeyObject;
  relyingParty: string;
  userHandle: string;
  counter: number;
}

/** Deviations for tests. Default: a conforming device. */
interface Circumstances {
  /** The origin of the page. */
  origin?: string;
  /** Whether the owner was verified. */
  isUserVerified?: boolean;
  /** Replaces the requested challenge. */
  challenge?: string;
}

export interface SoftwareAuthenticator {
  /** Creates a key pair for the options of a registration, as navigator.credentials.create does. */
  create(
    options: PublicKeyCredentialCreationOptionsJSON,
    deviations?: Circumstances,
  ): RegistrationResponseJSON;
  /** Signs the challenge of an authentication, as navigator.credentials.get does. */
  get(options: PublicKeyCredentialRequestOptionsJSON, deviations?: Circumstances): AuthenticationResponseJSON;
  /** Resets every counter, as in an older copy of the authenticator. */
  forgetCounts(): void;
}

/**
 * Creates an empty authenticator in a browser that shows pages of `origin`.
 * It creates ES256 keys, counts their use and sends no attestation.
 */
export function createSoftwareAuthenticator(origin: string): SoftwareAuthenticator {
  const credentials: StoredCredential[] = [];

  const clientData = (type: string, challenge: string, deviations: Circumstances) =>
    Buffer.from(
      JSON.stringify({
        type,
        challenge: deviations.challenge ?? challenge,
        origin: deviations.origin ?? origin,
        crossOrigin: false,
      }),
    );
  // WebAuthn, 6.1: hash of the relying party, flags (UP, UV, AT), counter.
  const authenticatorData = (
    credential: StoredCredential,
    deviations: Circumstances,
    attested?: Uint8Array,
  ) => {
    const head = Buffer.alloc(37);
    createHash('sha256').update(credential.relyingParty).digest().copy(head);
    head[32] = 0x01 | (deviations.isUserVerified === false ? 0 : 0x04) | (attested ? 0x40 : 0);
    head.writeUInt32BE(credential.counter, 33);
    return attested ? Buffer.concat([head, attested]) : head;
  };

  return {
    create(options, deviations = {}) {
      const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const id = randomBytes(16);
      const credential: StoredCredential = {
        id: id.toString('base64url'),
        privateKey,
        relyingParty: options.rp.id ?? new URL(origin).hostname,
        userHandle: options.user.id,
        counter: 1,
      };
      credentials.push(credential);
      const { x, y } = publicKey.export({ format: 'jwk' });
      const coordinate = (text: string | undefined) => new Uint8Array(Buffer.from(text ?? '', 'base64url'));
      // COSE (RFC 9053): key type EC2, algorithm ES256, curve P-256.
      const coseKey = isoCBOR.encode(
        new Map<number, number | Uint8Array>([
          [1, 2],
          [3, -7],
          [-1, 1],
          [-2, coordinate(x)],
          [-3, coordinate(y)],
        ]),
      );
      const idLength = Buffer.alloc(2);
      idLength.writeUInt16BE(id.length);
      const attested = Buffer.concat([Buffer.alloc(16), idLength, id, coseKey]);
      const attestationObject = isoCBOR.encode(
        new Map<string, string | Uint8Array | Map<string, string>>([
          ['fmt', 'none'],
          ['attStmt', new Map()],
          ['authData', new Uint8Array(authenticatorData(credential, deviations, attested))],
        ]),
      );
      return {
        id: credential.id,
        rawId: credential.id,
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: clientData('webauthn.create', options.challenge, deviations).toString('base64url'),
          attestationObject: Buffer.from(attestationObject).toString('base64url'),
          transports: ['internal'],
        },
      };
    },

    get(options, deviations = {}) {
      const allowed = options.allowCredentials ?? [];
      const credential = credentials.find(
        ({ id, relyingParty }) =>
          relyingParty === options.rpId && (allowed.length === 0 || allowed.some((entry) => entry.id === id)),
      );
      if (!credential) throw new Error('No passkey matches the request');
      credential.counter += 1;
      const data = clientData('webauthn.get', options.challenge, deviations);
      const authenticator = authenticatorData(credential, deviations);
      const signed = Buffer.concat([authenticator, createHash('sha256').update(data).digest()]);
      return {
        id: credential.id,
        rawId: credential.id,
        type: 'public-key',
        clientExtensionResults: {},
        response: {
          clientDataJSON: data.toString('base64url'),
          authenticatorData: authenticator.toString('base64url'),
          signature: sign('sha256', signed, credential.privateKey).toString('base64url'),
          userHandle: credential.userHandle,
        },
      };
    },

    forgetCounts() {
      for (const credential of credentials) credential.counter = 0;
    },
  };
}
