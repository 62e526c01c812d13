// Where processes share the browser files of their builds: a private bucket of the shop's storage, which only the secret key opens. So it
// is the same with files on a disk, in an S3 store, and in a hosted project.
import { StorageClient } from '@supabase/storage-js';
import { keyHeaders } from '../../../supabase/store.ts';

export interface BuildStore {
  /** The builds that processes run or ran lately. */
  list(): Promise<{ id: string; seenAt: number }[]>;
  read(id: string): Promise<Buffer>;
  /** Stores a build, or renews the time at which it was seen. */
  write(id: string, content: Buffer): Promise<void>;
  remove(ids: string[]): Promise<void>;
}

const bucket = 'builds';

/** Opens the store in the storage of a shop or a hosted project. */
export function openBuildStore(options: {
  servicesUrl: string;
  secretKey: string;
  serviceFetch?: typeof fetch;
}): BuildStore {
  const { servicesUrl, secretKey, serviceFetch } = options;
  const headers = serviceFetch ? { apikey: secretKey } : keyHeaders(secretKey);
  const client = new StorageClient(`${servicesUrl}/storage/v1`, headers, serviceFetch);
  const files = client.from(bucket);
  const write = (id: string, content: Buffer) =>
    files.upload(id, content, { upsert: true, contentType: 'application/octet-stream' });
  return {
    async list() {
      const { data, error } = await files.list('', { limit: 100 });
      if (error) throw error;
      return data.map(({ name, updated_at }) => ({ id: name, seenAt: Date.parse(updated_at ?? '') }));
    },
    async read(id) {
      const { data, error } = await files.download(id);
      if (error) throw error;
      return Buffer.from(await data.arrayBuffer());
    },
    async write(id, content) {
      if (!(await write(id, content)).error) return;
      // The first process of a shop creates the bucket. Another may do so at the same moment: the second attempt decides.
      await client.createBucket(bucket, { public: false });
      const { error } = await write(id, content);
      if (error) throw error;
    },
    async remove(ids) {
      const { error } = await files.remove(ids);
      if (error) throw error;
    },
  };
}
