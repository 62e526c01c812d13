// The store of the objects' content: files that are written once under a random name and never changed.
import type { Readable } from 'node:stream';

/** The file is not there: never there, or removed since its name was read. */
export class FileMissing extends Error {
  override readonly name = 'FileMissing';
  constructor(file: string) {
    super(`the file ${file} is missing`);
  }
}

/** Both ends count, as in HTTP. */
export interface ByteRange {
  first: number;
  last: number;
}

export interface FileStore {
  /** A local folder for uploads in progress and rendered images. */
  readonly workFolder: string;
  /**
   * Moves a file from the work folder. When it resolves, the content is durable and the given file no longer exists.
   * @param name `{installation}/{version}`, generated
   */
  put(name: string, workFile: string): Promise<void>;
  /** @throws FileMissing */
  copy(from: string, to: string): Promise<void>;
  /**
   * @param signal ends the reading, also of the content, where a store may stall
   * @throws FileMissing before anything was read
   */
  read(name: string, range?: ByteRange, signal?: AbortSignal): Promise<Readable>;
  /** Deletes files; a missing one is no error. */
  remove(names: readonly string[]): Promise<void>;
  /** The names within an installation of files written before a moment. */
  olderThan(installation: string, moment: Date): AsyncIterable<string>;
}
