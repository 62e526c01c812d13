// Parses Daraja's JSON bodies, in which clients mix numbers and strings.

export type Fields = Record<string, unknown>;

/** The body as an object; null when it is something else. */
export async function readFields(request: { text(): Promise<string> }): Promise<Fields | null> {
  try {
    const body: unknown = JSON.parse(await request.text());
    return typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as Fields) : null;
  } catch {
    return null;
  }
}

/** A string or finite number as trimmed text; anything else as an empty string. */
export function fieldText(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value === 'string') return value.trim();
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : '';
}
