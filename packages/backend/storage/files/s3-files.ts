// Files in a store that speaks the S3 protocol. Names are ours, so nothing in them needs escaping.
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { ReadableStream as NodeReadableStream } from 'node:stream/web';
import { AwsClient } from 'aws4fetch';
import { FileMissing, type FileStore } from './file-store.ts';

export interface S3Settings {
  /** URL of the store, without the bucket. */
  endpoint: string;
  bucket: string;
  accessKey: string;
  secretKey: string;
  region: string;
}

const attempts = 3;

/**
 * Stores files in an S3-compatible store (path style, SigV4), under `objects/` in one bucket.
 * @param workFolder a folder of this machine for uploads in progress
 */
export function createS3Files(settings: S3Settings, workFolder: string): FileStore {
  const client = new AwsClient({
    accessKeyId: settings.accessKey,
    secretAccessKey: settings.secretKey,
    region: settings.region,
    service: 's3',
    // A body is a stream and can be sent once, so this module retries instead of the client.
    retries: 0,
  });
  const base = `${settings.endpoint.replace(/\/+$/, '')}/${settings.bucket}`;
  const addressOf = (name: string) => `${base}/objects/${name}`;

  const call = async (url: string, init: () => RequestInit & { duplex?: 'half' }): Promise<Response> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const signed = await client.sign(url, init());
        const response = await fetch(signed);
        if (response.status < 500 && response.status !== 429) return response;
        const sentence = `the file store answered ${response.status}`;
        await response.body?.cancel();
        throw new Error(sentence);
      } catch (error) {
        if (attempt === attempts) throw error;
        await new Promise((done) => setTimeout(done, 100 * 3 ** (attempt - 1)));
      }
    }
  };
  const expectOk = async (response: Response, what: string): Promise<void> => {
    const text = await response.text();
    if (!response.ok)
      throw new Error(`the file store refused to ${what}: ${response.status} ${codeIn(text)}`);
  };

  return {
    workFolder,

    async put(name, workFile) {
      const { size } = await stat(workFile);
      const response = await call(addressOf(name), () => ({
        method: 'PUT',
        headers: { 'content-length': String(size), 'content-type': 'application/octet-stream' },
        // An empty stream would be sent in chunks, which stores refuse.
        body: size === 0 ? '' : (Readable.toWeb(createReadStream(workFile)) as ReadableStream<Uint8Array>),
        duplex: 'half',
      }));
      await expectOk(response, 'store a file');
      await rm(workFile, { force: true });
    },

    async copy(from, to) {
      const response = await call(addressOf(to), () => ({
        method: 'PUT',
        headers: { 'x-amz-copy-source': `/${settings.bucket}/objects/${from}` },
      }));
      if (response.status === 404) {
        await response.body?.cancel();
        throw new FileMissing(from);
      }
      const text = await response.text();
      // A copy that fails late reports it in a response with status 200.
      if (!response.ok || text.includes('<Error>')) {
        throw new Error(`the file store refused to copy a file: ${response.status} ${codeIn(text)}`);
      }
    },

    async read(name, range, signal) {
      const response = await call(addressOf(name), () => ({
        headers: range ? { range: `bytes=${range.first}-${range.last}` } : {},
        ...(signal ? { signal } : {}),
      }));
      if (response.status === 404) {
        await response.body?.cancel();
        throw new FileMissing(name);
      }
      if (!response.ok) await expectOk(response, 'give a file');
      return response.body ? Readable.fromWeb(response.body as NodeReadableStream) : Readable.from([]);
    },

    async remove(names) {
      for (let at = 0; at < names.length; at += 8) {
        await Promise.all(
          names.slice(at, at + 8).map(async (name) => {
            const response = await call(addressOf(name), () => ({ method: 'DELETE' }));
            if (response.status !== 404) await expectOk(response, 'remove a file');
            else await response.body?.cancel();
          }),
        );
      }
    },

    async *olderThan(installation, moment) {
      let next: string | undefined;
      do {
        const query = new URLSearchParams({ 'list-type': '2', prefix: `objects/${installation}/` });
        if (next) query.set('continuation-token', next);
        const response = await call(`${base}?${query}`, () => ({}));
        const text = await response.text();
        if (!response.ok) throw new Error(`the file store refused to list its files: ${response.status}`);
        for (const [, entry = ''] of text.matchAll(/<Contents>([\s\S]*?)<\/Contents>/g)) {
          const name = /<Key>objects\/([^<]+)<\/Key>/.exec(entry)?.[1];
          const written = /<LastModified>([^<]+)<\/LastModified>/.exec(entry)?.[1];
          if (name && written && new Date(written) < moment) yield name;
        }
        next = unescapeXml(/<NextContinuationToken>([^<]+)</.exec(text)?.[1]);
      } while (next);
    },
  };
}

function codeIn(xml: string): string {
  return /<Code>([^<]+)<\/Code>/.exec(xml)?.[1] ?? '';
}

function unescapeXml(text: string | undefined): string | undefined {
  return text
    ?.replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&');
}
