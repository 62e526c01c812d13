// JSON bodies and the checks of their fields.
import { isStorable } from '../storable.ts';
import type { Call, StorageContext } from './context.ts';
import { storageErrors } from './storage-error.ts';

export type JsonBody = Readonly<Record<string, unknown>>;

const maxBytes = 1024 * 1024;

/**
 * Reads a request's body as a JSON object; an absent body is an empty one.
 * @throws StorageError InvalidRequest, EntityTooLarge above 1 MiB, or above an anonymous caller's limit
 */
export async function readJson(
  { settings }: Pick<StorageContext, 'settings'>,
  { request, caller }: Pick<Call, 'request' | 'caller'>,
): Promise<JsonBody> {
  const limit = caller.claims.role === 'anon' ? Math.min(maxBytes, settings.anonymousJsonBytes) : maxBytes;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > limit) throw storageErrors.tooLarge('Request body is too large');
    chunks.push(chunk);
  }
  if (size === 0) return {};
  let body: unknown;
  try {
    body = JSON.parse(Buffer.concat(chunks).toString());
  } catch {
    throw storageErrors.request('Body is not valid JSON');
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw storageErrors.request('body must be object');
  if (!isStorable(body))
    throw storageErrors.request('body must not have zero characters or be nested too deeply');
  return body as JsonBody;
}

/** @throws StorageError when the property is missing or no text */
export function textIn(body: JsonBody, name: string): string {
  const value = body[name];
  if (value === undefined || value === null) {
    throw storageErrors.request(`body must have required property '${name}'`);
  }
  if (typeof value !== 'string') throw storageErrors.request(`body/${name} must be string`);
  if (value === '') throw storageErrors.request(`body/${name} must NOT have fewer than 1 characters`);
  return value;
}

/** The text, or the fallback when the property is missing. */
export function optionalTextIn<Fallback>(
  body: JsonBody,
  name: string,
  fallback: Fallback,
): string | Fallback {
  const value = body[name];
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'string') throw storageErrors.request(`body/${name} must be string`);
  return value;
}

/**
 * Refuses a property of the storage API that this service does not implement.
 * @throws StorageError when the body has it
 */
export function refuseProperty(body: JsonBody, name: string): void {
  if (body[name] !== undefined && body[name] !== null) throw storageErrors.notSupported(`body/${name}`);
}

/** The truth value, or the fallback when the property is missing. */
export function optionalFlagIn<Fallback>(
  body: JsonBody,
  name: string,
  fallback: Fallback,
): boolean | Fallback {
  const value = body[name];
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'boolean') throw storageErrors.request(`body/${name} must be boolean`);
  return value;
}

/** The whole number within bounds, or the fallback when the property is missing. */
export function optionalIntegerIn<Fallback>(
  body: JsonBody,
  name: string,
  fallback: Fallback,
  bounds: { least: number; most: number },
): number | Fallback {
  const value = body[name];
  if (value === undefined || value === null) return fallback;
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    throw storageErrors.request(`body/${name} must be integer`);
  }
  if (value < bounds.least) throw storageErrors.request(`body/${name} must be >= ${bounds.least}`);
  if (value > bounds.most) throw storageErrors.request(`body/${name} must be <= ${bounds.most}`);
  return value;
}

/** @throws StorageError when the property is missing, no list of texts, empty or too long */
export function textsIn(body: JsonBody, name: string, most: number): string[] {
  const value = body[name];
  if (value === undefined || value === null) {
    throw storageErrors.request(`body must have required property '${name}'`);
  }
  if (!Array.isArray(value)) throw storageErrors.request(`body/${name} must be array`);
  if (value.length === 0) throw storageErrors.request(`body/${name} must NOT have fewer than 1 items`);
  if (value.length > most) throw storageErrors.request(`body/${name} must NOT have more than ${most} items`);
  const wrong = value.findIndex((item) => typeof item !== 'string');
  if (wrong >= 0) throw storageErrors.request(`body/${name}/${wrong} must be string`);
  return value as string[];
}

/** The object, or null when the property is missing. */
export function optionalObjectIn(body: JsonBody, name: string): JsonBody | null {
  const value = body[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== 'object' || Array.isArray(value))
    throw storageErrors.request(`body/${name} must be object`);
  return value as JsonBody;
}
