// Who is present on which topic, and what changes when someone comes or goes. Pure: it tells nobody.
import { randomBytes } from 'node:crypto';

/** One appearance of somebody. */
export interface PresenceMeta {
  phx_ref: string;
  phx_ref_prev?: string;
  [field: string]: unknown;
}

/** Everybody present, by key. */
export type PresenceState = Record<string, { metas: PresenceMeta[] }>;

/** What changed. */
export interface PresenceDiff {
  joins: PresenceState;
  leaves: PresenceState;
}

interface Appearance {
  key: string;
  meta: PresenceMeta;
}

/** The people of all topics; `Member` is whatever stands for one membership, and tracks at most one appearance. */
export class Presences<Member extends object> {
  readonly #audiences = new Map<string, Map<Member, Appearance>>();

  /** Everybody present on a topic. */
  stateOf(audience: string): PresenceState {
    const state: PresenceState = Object.create(null);
    for (const { key, meta } of this.#audiences.get(audience)?.values() ?? []) {
      state[key] ??= { metas: [] };
      state[key].metas.push(meta);
    }
    return state;
  }

  /** A member appears, or appears differently. */
  track(
    audience: string,
    member: Member,
    key: string,
    payload: Readonly<Record<string, unknown>>,
  ): PresenceDiff {
    const members = this.#audiences.get(audience) ?? new Map<Member, Appearance>();
    this.#audiences.set(audience, members);
    const before = members.get(member);
    const meta: PresenceMeta = { ...payload, phx_ref: randomBytes(9).toString('base64url') };
    if (before) meta.phx_ref_prev = before.meta.phx_ref;
    members.set(member, { key, meta });
    return { joins: stateOfOne({ key, meta }), leaves: before ? stateOfOne(before) : {} };
  }

  /** A member is gone; null when it had not appeared. */
  untrack(audience: string, member: Member): PresenceDiff | null {
    const members = this.#audiences.get(audience);
    const before = members?.get(member);
    if (!members || !before) return null;
    members.delete(member);
    if (members.size === 0) this.#audiences.delete(audience);
    return { joins: {}, leaves: stateOfOne(before) };
  }
}

function stateOfOne({ key, meta }: Appearance): PresenceState {
  // A key may be any text, `__proto__` too.
  return Object.assign(Object.create(null), { [key]: { metas: [meta] } });
}
