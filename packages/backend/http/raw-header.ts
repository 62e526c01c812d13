import type { IncomingMessage } from 'node:http';

/**
 * Reads one header without building Node's object of all headers.
 * @param name in lower case
 * @returns its first value
 */
export function rawHeader({ rawHeaders }: IncomingMessage, name: string): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const candidate = rawHeaders[index];
    if (candidate?.length === name.length && candidate.toLowerCase() === name) return rawHeaders[index + 1];
  }
  return undefined;
}
