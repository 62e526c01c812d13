// The system's limit of open files, which connections share with the database and files that are read. Node.js has raised it as far as
// the system allows.
import { readFileSync } from 'node:fs';
import { defaultLimits } from '../realtime/limits.ts';

/** Where the system does not say: what macOS allows. */
const assumedFiles = 10_240;
/** For the database, files that are read, and connections to other servers; at most a quarter of the limit. */
const reservedFiles = 1_024;

/** Maximum connections: above it the process could open no file. */
export function maxConnections(files = openFileLimit()): number {
  return files - Math.min(reservedFiles, Math.floor(files / 4));
}

/** Maximum WebSockets: the other half of the connections is for requests. */
export function maxWebSockets(): number {
  return Math.min(defaultLimits.connections, Math.floor(maxConnections() / 2));
}

function openFileLimit(): number {
  try {
    const [, files] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return files ? Number(files) : assumedFiles;
  } catch {
    return assumedFiles;
  }
}
