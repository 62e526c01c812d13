// Runs a program in a process of its own, for tests of processes that are killed.
import { spawn } from 'node:child_process';

/**
 * Starts a program.
 * @param code an ES module in TypeScript; its imports are relative to the current folder
 * @param environment further environment variables
 * @returns the process; `ended` resolves when it has ended, with its exit code or signal
 */
export function runProgram(code: string, environment: Record<string, string>) {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', code], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [output, errors] = ['', ''];
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    errors += chunk;
  });
  const ended = new Promise<{ end: number | NodeJS.Signals | null; output: string; errors: string }>((done) =>
    child.once('close', (code, signal) => done({ end: code ?? signal, output, errors })),
  );
  return { child, ended };
}
