// Reads body fields with their documented type and a maximum length.
import { isStorable, isStorableText } from '../../storable.ts';
import { AuthError, invalid } from '../auth-error.ts';
import type { Fields } from '../context.ts';
import type { Json } from '../rows.ts';

const wrongType = (name: string, wanted: string) =>
  new AuthError(400, 'bad_json', `Could not parse request body as JSON: field ${name} must be ${wanted}`);

/**
 * A text; '' when absent or null.
 * @param maxLength characters. Default: 2048
 * @throws AuthError bad_json for another type, validation_failed when it is longer
 */
export function text(fields: Fields, name: string, maxLength = 2048): string {
  const value = fields[name] ?? '';
  if (typeof value !== 'string') throw wrongType(name, 'a string');
  if (value.length > maxLength) throw invalid(`${name} is longer than ${maxLength} characters`);
  if (!isStorableText(value))
    throw wrongType(name, 'a string without zero characters and halves of characters');
  return value;
}

/** A text, or undefined when the field is absent or null: for changes, where '' has a meaning. */
export function optionalText(fields: Fields, name: string, maxLength?: number): string | undefined {
  return fields[name] === undefined || fields[name] === null ? undefined : text(fields, name, maxLength);
}

/** True or false; `fallback` when absent or null. */
export function flag(fields: Fields, name: string, fallback = false): boolean {
  const value = fields[name] ?? fallback;
  if (value === 'true' || value === 'false') return value === 'true';
  if (typeof value !== 'boolean') throw wrongType(name, 'a boolean');
  return value;
}

/** An object; null when absent or null. */
export function object(fields: Fields, name: string): Json | null {
  const value = fields[name] ?? null;
  if (value === null) return null;
  if (typeof value !== 'object' || Array.isArray(value)) throw wrongType(name, 'an object');
  if (!isStorable(value)) throw wrongType(name, 'free of zero characters and not nested too deeply');
  return value as Json;
}

/** Limits of user metadata, which is part of every access token. */
const maxMetadataKeys = 100;
const maxMetadataBytes = 16 * 1024;

/** @throws AuthError validation_failed when a user's metadata has too many keys or is too large */
export function checkMetadata(metadata: Json): Json {
  const keys = Object.keys(metadata).length;
  if (keys > maxMetadataKeys || Buffer.byteLength(JSON.stringify(metadata)) > maxMetadataBytes) {
    throw invalid(`User metadata takes at most ${maxMetadataKeys} keys and ${maxMetadataBytes / 1024} KiB`);
  }
  return metadata;
}

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Whether a value is a UUID in text form. */
export const isUuid = (value: unknown): value is string =>
  typeof value === 'string' && uuidPattern.test(value);

/** A path parameter that must be a UUID. @throws AuthError 404 validation_failed */
export function uuidParameter(parameters: Readonly<Record<string, string>>, name: string): string {
  const value = parameters[name];
  if (!isUuid(value)) throw new AuthError(404, 'validation_failed', `${name} must be an UUID`);
  return value.toLowerCase();
}
