// Reads every page of the embedded database at its start, because PostgreSQL notices a damaged page only when a query reads it, and
// a missing one hardly ever. The caller has just opened the database: all pages are on the disk, and nothing is written in the meantime.
import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';

export const pageBytes = 8192;
/** Pages of one file; a larger table continues in `FILE.1`. */
const filePages = 131_072;
const pagesPerRead = 128;

export interface CheckedRelation {
  /** Quoted name with its schema. */
  name: string;
  /** Relative to the folder. */
  path: string;
  /** For a complete B-tree: the file of its table. */
  tablePath: string | null;
}

export interface PageCheck {
  folder: string;
  /** Whether pages have checksums. */
  hasChecksums: boolean;
  /** End of the write-ahead log, in bytes since its beginning. Pages of later changes prove that a part of it was lost. */
  logEnd: number;
}

/** Pages of a relation. */
interface Pages {
  count: number;
  /** Never written or zeroed. */
  blank: Set<number>;
}

/** A page that an index refers to: the first one after all the others, and those that are blank. */
interface Reference {
  name: string;
  path: string;
  /** Where the pages must be. */
  target: string;
  pages: Set<number>;
}

/**
 * Checks the checksum of every page, and that indexes refer to pages that exist, which finds files that were cut.
 * @returns the first damage, as a part of a sentence; null if there is none
 */
export function findDamagedPage(
  relations: readonly CheckedRelation[],
  { folder, hasChecksums, logEnd }: PageCheck,
): string | null {
  const known = new Map<string, Pages>();
  const references: Reference[] = [];
  for (const { name, path, tablePath } of relations) {
    if (known.has(path)) continue;
    const pages: Pages = { count: 0, blank: new Set() };
    known.set(path, pages);
    const rows = new Set<number>();
    const children = new Set<number>();
    let damage: string | null = null;
    const size = readPages(join(folder, path), (page, number) => {
      pages.count = number + 1;
      if (damage) return;
      if (isBlank(page)) pages.blank.add(number);
      else if (hasChecksums && checksumOf(page, number) !== page.readUInt16LE(8)) damage = `page ${number}`;
      else if (logPositionOf(page) > logEnd) damage = `page ${number}, which is newer than the log,`;
      else if (tablePath) readReferences(page, number, rows, children);
    });
    if (damage) return `${damage} of ${name} in ${path} is damaged`;
    if (size % pageBytes !== 0) return `the file of ${name}, ${path}, has no whole number of pages`;
    if (!tablePath) continue;
    references.push({ name, path, target: path, pages: children });
    references.push({ name, path, target: tablePath, pages: rows });
  }
  for (const { name, target, pages } of references) {
    const found = known.get(target);
    // A table of another kind, such as a partitioned one.
    if (!found) continue;
    for (const number of pages) {
      if (number >= found.count || found.blank.has(number)) {
        return `page ${number} of ${target} is missing, which ${name} refers to`;
      }
    }
  }
  return null;
}

const buffer = Buffer.allocUnsafe(pagesPerRead * pageBytes);

/** @returns the bytes of all files of the relation; the last part of a page is not reported */
function readPages(path: string, onPage: (page: Buffer, number: number) => void): number {
  let total = 0;
  // Only full files continue in another one.
  for (let segment = 0; total === segment * filePages * pageBytes; segment += 1) {
    const file = openFile(segment === 0 ? path : `${path}.${segment}`);
    if (file === null) return total;
    try {
      let number = segment * filePages;
      for (let bytes = readFull(file, buffer); bytes > 0; bytes = readFull(file, buffer)) {
        total += bytes;
        for (let at = 0; at + pageBytes <= bytes; at += pageBytes) {
          onPage(buffer.subarray(at, at + pageBytes), number);
          number += 1;
        }
      }
    } finally {
      closeSync(file);
    }
  }
  return total;
}

function readFull(file: number, buffer: Buffer): number {
  let filled = 0;
  while (filled < buffer.length) {
    const bytes = readSync(file, buffer, filled, buffer.length - filled, null);
    if (bytes === 0) break;
    filled += bytes;
  }
  return filled;
}

function openFile(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

const blankPage = Buffer.alloc(pageBytes);
/** PostgreSQL takes a page of zeros for a new one, also in a file whose middle was lost. */
const isBlank = (page: Buffer) => page.readUInt16LE(14) === 0 && page.equals(blankPage);

const logPositionOf = (page: Buffer) => page.readUInt32LE(0) * 2 ** 32 + page.readUInt32LE(4);

// Flags of a B-tree's page and of its entries: src/include/access/nbtree.h and itup.h of PostgreSQL.
const leafPage = 1;
const unusedPage = 4 | 8 | 16;
const otherEntry = 0x2000;
const listEntry = 0x2000;

/** Collects the pages that a page of a B-tree refers to: of the table, and of the tree. */
function readReferences(page: Buffer, number: number, rows: Set<number>, children: Set<number>): void {
  if (number === 0) {
    // The metapage: its root, or none.
    const root = page.readUInt32LE(24 + 8);
    if (root !== 0) children.add(root);
    return;
  }
  const special = page.readUInt16LE(16);
  const next = page.readUInt32LE(special + 4);
  const flags = page.readUInt16LE(special + 12);
  if (flags & unusedPage) return;
  if (next !== 0) children.add(next);
  const entries = (page.readUInt16LE(12) - 24) / 4;
  // Except on the last page of a level, the first entry is the upper limit of the page.
  for (let entry = next === 0 ? 0 : 1; entry < entries; entry += 1) {
    const pointer = page.readUInt32LE(24 + 4 * entry);
    const at = pointer & 0x7fff;
    const isNormal = ((pointer >>> 15) & 3) === 1;
    if (!isNormal) continue;
    if (!(flags & leafPage)) {
      children.add(pageOf(page, at));
      continue;
    }
    const position = page.readUInt16LE(at + 4);
    if (page.readUInt16LE(at + 6) & otherEntry && position & listEntry) {
      // Rows with equal values: a list of their places.
      const list = at + pageOf(page, at);
      const count = position & 0x0fff;
      for (let row = 0; row < count; row += 1) rows.add(pageOf(page, list + 6 * row));
    } else rows.add(pageOf(page, at));
  }
}

const pageOf = (page: Buffer, at: number) => page.readUInt16LE(at) * 65_536 + page.readUInt16LE(at + 2);

// The checksum of PostgreSQL (src/include/storage/checksum_impl.h): 32 sums of FNV-1a side by side.
const prime = 16_777_619;
const initialSums = Int32Array.of(
  0x5b1f36e9,
  0xb8525960,
  0x02ab50aa,
  0x1de66d2a,
  0x79ff467a,
  0x9bb9f8a3,
  0x217e7cd2,
  0x83e13d2c,
  0xf8d4474f,
  0xe39eb970,
  0x42c6ae16,
  0x993216fa,
  0x7b093b5d,
  0x98daff3c,
  0xf718902a,
  0x0b1c9cdb,
  0xe58f764b,
  0x187636bc,
  0x5d7b3bb1,
  0xe73de7de,
  0x92bec979,
  0xcca6c0b2,
  0x304a0979,
  0x85aa43d4,
  0x783125bb,
  0x6ca8eaa2,
  0xe407eac6,
  0x4b5cfc3e,
  0x9fbf8c76,
  0x15ca20be,
  0xf2ca9fd3,
  0x959bd756,
);
const sums = new Int32Array(32);
const words = new Int32Array(pageBytes / 4);
const wordBytes = Buffer.from(words.buffer);

/** The checksum of a page, which depends on its number. */
function checksumOf(page: Buffer, number: number): number {
  page.copy(wordBytes);
  // The checksum's own place counts as zero.
  wordBytes.writeUInt16LE(0, 8);
  sums.set(initialSums);
  for (let at = 0; at < words.length; at += 32) {
    for (let lane = 0; lane < 32; lane += 1) {
      const mixed = (sums[lane] as number) ^ (words[at + lane] as number);
      sums[lane] = Math.imul(mixed, prime) ^ (mixed >>> 17);
    }
  }
  let result = number;
  for (let lane = 0; lane < 32; lane += 1) {
    let sum = sums[lane] as number;
    for (let round = 0; round < 2; round += 1) sum = Math.imul(sum, prime) ^ (sum >>> 17);
    result ^= sum;
  }
  return ((result >>> 0) % 65_535) + 1;
}
