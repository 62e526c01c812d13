// Reading bodies of others: never more than a limit, never assuming that they are JSON.

/**
 * A body as text, up to a limit.
 * @returns the text (broken UTF-8 replaced), cut at `limit` bytes; `isCut` when there was more
 */
export async function readText(
  source: Request | Response,
  limit: number,
): Promise<{ text: string; isCut: boolean }> {
  if (!source.body) return { text: '', isCut: false };
  const decoder = new TextDecoder();
  const reader = source.body.getReader();
  let text = '';
  let left = limit;
  while (true) {
    const { done, value } = await reader.read();
    if (done) return { text: text + decoder.decode(), isCut: false };
    text += decoder.decode(value.subarray(0, left), { stream: true });
    if (value.byteLength > left) {
      await reader.cancel();
      return { text: text + decoder.decode(), isCut: true };
    }
    left -= value.byteLength;
  }
}

export type Fields = Record<string, unknown>;

/** The value as an object with fields; null when it is anything else. */
export function asFields(value: unknown): Fields | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
}

/** The text as a JSON object; null when it is none. */
export function parseFields(text: string): Fields | null {
  try {
    return asFields(JSON.parse(text));
  } catch {
    return null;
  }
}

/**
 * A value as PostgreSQL can keep it in a text column: it takes neither NUL nor half a surrogate pair.
 * @returns null for anything but a string or a number; cut at `longest` characters
 */
export function storableText(value: unknown, longest: number): string | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  return String(value)
    .slice(0, longest)
    .replaceAll('\0', '\uFFFD')
    .replace(/\p{Surrogate}/gu, '\uFFFD');
}
