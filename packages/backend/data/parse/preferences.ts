// The Prefer header: requested and applied preferences.
import { DataError } from '../respond/data-error.ts';

export interface Preferences {
  resolution: 'merge-duplicates' | 'ignore-duplicates' | null;
  return: 'representation' | 'minimal' | 'headers-only' | null;
  count: 'exact' | 'planned' | 'estimated' | null;
  transaction: 'commit' | 'rollback' | null;
  missing: 'default' | 'null' | null;
  handling: 'strict' | 'lenient' | null;
  timeZone: string | null;
  maxAffected: number | null;
}

const choices: Readonly<Record<string, readonly [field: keyof Preferences, values: readonly string[]]>> = {
  resolution: ['resolution', ['merge-duplicates', 'ignore-duplicates']],
  return: ['return', ['representation', 'minimal', 'headers-only']],
  count: ['count', ['exact', 'planned', 'estimated']],
  tx: ['transaction', ['commit', 'rollback']],
  missing: ['missing', ['default', 'null']],
  handling: ['handling', ['strict', 'lenient']],
};

/**
 * Parses a Prefer header.
 * @param header its value, several headers joined by commas; null when there is none
 * @returns the preferences; the first of a kind wins, unknown ones are ignored
 * @throws DataError PGRST122 for an unknown preference with strict handling
 */
export function parsePreferences(header: string | null): Preferences {
  const preferences: Preferences = {
    resolution: null,
    return: null,
    count: null,
    transaction: null,
    missing: null,
    handling: null,
    timeZone: null,
    maxAffected: null,
  };
  const unknown: string[] = [];
  for (const entry of header?.split(',') ?? []) {
    const preference = entry.trim();
    if (preference === '') continue;
    if (!set(preferences, preference)) unknown.push(preference);
  }
  if (preferences.handling === 'strict' && unknown.length > 0) {
    throw new DataError(400, {
      code: 'PGRST122',
      message: 'Invalid preferences given with handling=strict',
      details: `Invalid preferences: ${unknown.join(', ')}`,
    });
  }
  if (preferences.handling !== 'strict') preferences.maxAffected = null;
  return preferences;
}

function set(preferences: Preferences, preference: string): boolean {
  const [name = '', value = ''] = preference.split('=', 2).map((part) => part.trim());
  if (name === 'timezone') {
    if (!isTimeZone(value)) return false;
    preferences.timeZone ??= value;
    return true;
  }
  if (name === 'max-affected') {
    if (/^-?\d{1,15}$/.test(value)) preferences.maxAffected ??= Number(value);
    return true;
  }
  const choice = Object.hasOwn(choices, name) ? choices[name] : undefined;
  if (!choice?.[1].includes(value)) return false;
  const fields = preferences as unknown as Record<string, string | null>;
  fields[choice[0]] ??= value;
  return true;
}

// The runtime and PostgreSQL have the same zone names; PostgreSQL's list would read hundreds of files.
function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    // An offset such as +03:00 is no name, and means the opposite to PostgreSQL.
    return /^[A-Za-z]/.test(name);
  } catch {
    return false;
  }
}

/**
 * The Preference-Applied header, in PostgREST's fixed order.
 * @param applied the preferences that took effect; others null
 * @returns the header's value, or null when nothing was applied
 */
export function preferenceApplied(applied: Partial<Preferences>): string | null {
  const parts: Array<[string, string | number | null | undefined]> = [
    ['resolution', applied.resolution],
    ['missing', applied.missing],
    ['return', applied.return],
    ['count', applied.count],
    ['tx', applied.transaction],
    ['handling', applied.handling],
    ['timezone', applied.timeZone],
    ['max-affected', applied.maxAffected],
  ];
  const provided = parts.filter(([, value]) => value !== null && value !== undefined);
  return provided.length > 0 ? provided.map(([name, value]) => `${name}=${value}`).join(', ') : null;
}
