// Finds and runs PostgreSQL's backup programs, without the password in the process list.
import { spawn } from 'node:child_process';
import { access, constants, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/**
 * Finds the newest version of the programs on this machine.
 * @param names of the required programs
 * @returns the folder that contains all of them, or null
 */
export async function findPrograms(
  names: readonly string[] = ['pg_dump', 'pg_restore'],
  path = process.env.PATH ?? '',
): Promise<string | null> {
  const installed = '/usr/lib/postgresql';
  const versions = (await readdir(installed).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  const folders = [
    ...versions.map((version) => join(installed, version, 'bin')),
    ...path.split(delimiter).filter(Boolean),
  ];
  for (const folder of folders) {
    const found = await Promise.all(names.map((name) => access(join(folder, name), constants.X_OK))).catch(
      () => null,
    );
    if (found) return folder;
  }
  return null;
}

/** A program that failed. The message is its error output. */
export class ProgramFailed extends Error {
  override readonly name = 'ProgramFailed';
}

/**
 * Runs a program against a database, at low priority.
 * @param databaseUrl a postgres:// connection string; absent for programs that need none
 */
export function runProgram(
  program: string,
  parameters: readonly string[],
  options: { databaseUrl?: string; signal?: AbortSignal | undefined } = {},
): Promise<void> {
  const environment = { ...process.env };
  const url = options.databaseUrl ? new URL(options.databaseUrl) : null;
  if (url) {
    environment.PGPASSWORD = decodeURIComponent(url.password);
    url.password = '';
  }
  const connection = url ? ['--dbname', url.href] : [];
  return new Promise((done, fail) => {
    const child = spawn(program, [...connection, ...parameters], {
      env: environment,
      stdio: ['ignore', 'ignore', 'pipe'],
      ...(options.signal ? { signal: options.signal } : {}),
    });
    let errorOutput = '';
    child.stderr.on('data', (chunk: Buffer) => {
      errorOutput = (errorOutput + chunk.toString()).slice(-2000);
    });
    child.once('error', fail);
    child.once('close', (code) => {
      if (code === 0) done();
      else fail(new ProgramFailed(errorOutput.trim() || `${program} ended with code ${code}`));
    });
  });
}
