// Reads bodies of unknown size and format.

/**
 * Reads a body as text up to a limit.
 * @returns the text (invalid UTF-8 replaced), cut at `limit` bytes; `isCut` if there was more
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

export type JsonObject = Record<string, unknown>;

/** Returns the value if it is an object, otherwise null. */
export function asObject(value: unknown): JsonObject | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
}

/** Parses a JSON object. Returns null for anything else. */
export function parseObject(text: string): JsonObject | null {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return null;
  }
}

/**
 * Converts a value to text that PostgreSQL can store: without NUL and unpaired surrogates.
 * @returns null unless it is a string or a number; cut at `longest` characters
 */
export function storableText(value: unknown, longest: number): string | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null;
  return String(value)
    .slice(0, longest)
    .replaceAll('\0', '\uFFFD')
    .replace(/\p{Surrogate}/gu, '\uFFFD');
}
