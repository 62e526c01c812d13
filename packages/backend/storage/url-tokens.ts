// Tokens in signed URLs: clients without an account download or upload one object.
import { hkdfSync } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';
import { storageErrors } from './storage-error.ts';

interface DownloadToken {
  url: string;
  scope: 'download';
  /** `width:100,resize:cover`: the URL is then valid for that rendering only. */
  transformations?: string;
  exp: number;
}

interface UploadToken {
  url: string;
  scope: 'upload';
  owner: string | null;
  upsert: boolean;
  exp: number;
}

export interface UrlTokens {
  /** @param seconds lifetime of the token */
  sign(claims: Omit<DownloadToken, 'exp'> | Omit<UploadToken, 'exp'>, seconds: number): Promise<string>;
  /**
   * Checks a token.
   * @param url `{bucket}/{key}`, which the token must be for
   * @throws StorageError InvalidJWT for one that is forged, expired or of another scope; InvalidSignature for another path
   */
  verifyDownload(token: string, url: string): Promise<DownloadToken>;
  /** The same for uploading. */
  verifyUpload(token: string, url: string): Promise<UploadToken>;
}

/** Creates and verifies tokens with a key derived from a secret for this purpose. */
export function createUrlTokens(secret: string | Uint8Array): UrlTokens {
  const key = new Uint8Array(hkdfSync('sha256', secret, '', 'addresses of stored objects', 32));
  const verify = async (token: string, url: string, scope: 'download' | 'upload') => {
    try {
      const { payload } = await jwtVerify(token, key, { algorithms: ['HS256'], requiredClaims: ['exp'] });
      if (payload.scope !== scope) throw storageErrors.invalidToken('The token is for another purpose');
      if (payload.url !== url) throw storageErrors.wrongSignature();
      return payload;
    } catch (error) {
      if (error instanceof errors.JOSEError) throw storageErrors.invalidToken(error.message);
      throw error;
    }
  };
  return {
    sign: (claims, seconds) =>
      new SignJWT({ ...claims })
        .setProtectedHeader({ alg: 'HS256' })
        .setIssuedAt()
        .setExpirationTime(Math.floor(Date.now() / 1000) + seconds)
        .sign(key),
    verifyDownload: async (token, url) =>
      (await verify(token, url, 'download')) as DownloadToken & Record<string, unknown>,
    verifyUpload: async (token, url) =>
      (await verify(token, url, 'upload')) as UploadToken & Record<string, unknown>,
  };
}
