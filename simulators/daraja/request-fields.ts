// Reads Daraja's JSON bodies, in which samples and clients mix numbers and strings freely.

export type Fields = Record<string, unknown>;

/** The body as an object, or null when it is none. */
export async function readFields(request: { text(): Promise<string> }): Promise<Fields | null> {
  try {
    const body: unknown = JSON.parse(await request.text());
    return typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as Fields) : null;
  } catch {
    return null;
  }
}

/** A string or finite number as trimmed text; anything else as an empty text. */
export function fieldText(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === 'string') return value.trim();
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : '';
}
