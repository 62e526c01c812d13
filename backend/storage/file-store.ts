// Where the content of objects is: files that are written once under a random name and never changed.
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
  /** A folder of this machine for uploads in progress and images that were made from others. */
  readonly workFolder: string;
  /**
   * Takes a file of the work folder over. When it resolves the content is there to stay, and the given file is gone.
   * @param name `{installation}/{version}`, made by us
   */
  put(name: string, workFile: string): Promise<void>;
  /** @throws FileMissing */
  copy(from: string, to: string): Promise<void>;
  /** @throws FileMissing before anything was read */
  read(name: string, range?: ByteRange): Promise<Readable>;
  /** Removes files; one that is not there is no fault. */
  remove(names: readonly string[]): Promise<void>;
  /** The names within an installation of files written before a moment. */
  olderThan(installation: string, moment: Date): AsyncIterable<string>;
}
