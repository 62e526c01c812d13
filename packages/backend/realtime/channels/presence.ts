// Presences of this process's clients by topic, and the changes when members join or leave. Pure: it sends nothing.
import { randomBytes } from 'node:crypto';

/** One presence of a member. */
interface PresenceMeta {
  phx_ref: string;
  phx_ref_prev?: string;
  [field: string]: unknown;
}

/** Presences by key. */
export type PresenceState = Record<string, { metas: PresenceMeta[] }>;

/** Changes of a topic's presences. */
export interface PresenceDiff {
  joins: PresenceState;
  leaves: PresenceState;
}

/** A presence with its key, and the bytes of both. */
export interface Appearance {
  key: string;
  meta: PresenceMeta;
  bytes: number;
}

/** Presences that a member's change adds and removes. */
interface Change {
  joined?: Appearance;
  left?: Appearance | undefined;
}

interface Audience<Member> {
  members: Map<Member, Appearance>;
  /** Presence bytes of all topics. */
  bytes: number;
}

/** Presence of all topics; `Member` stands for one channel, and tracks at most one presence. */
export class Presences<Member extends object> {
  readonly #audiences = new Map<string, Audience<Member>>();

  /** All presences of a topic. */
  of(audience: string): Appearance[] {
    return [...(this.#audiences.get(audience)?.members.values() ?? [])];
  }

  /** Presence bytes of a topic, or of one member. */
  bytesOf(audience: string, member?: Member): number {
    const audienceState = this.#audiences.get(audience);
    return (member ? audienceState?.members.get(member) : audienceState)?.bytes ?? 0;
  }

  /**
   * A member starts or updates its presence.
   * @param appearance its key, its payload, and the bytes of both
   */
  track(
    audience: string,
    member: Member,
    { key, bytes, payload }: { key: string; bytes: number; payload: Readonly<Record<string, unknown>> },
  ): Change {
    const audienceState = this.#audiences.get(audience) ?? {
      members: new Map<Member, Appearance>(),
      bytes: 0,
    };
    this.#audiences.set(audience, audienceState);
    const before = audienceState.members.get(member);
    const meta: PresenceMeta = { ...payload, phx_ref: randomBytes(9).toString('base64url') };
    if (before) meta.phx_ref_prev = before.meta.phx_ref;
    const joined = { key, meta, bytes };
    audienceState.members.set(member, joined);
    audienceState.bytes += bytes - (before?.bytes ?? 0);
    return { joined, left: before };
  }

  /** A member left; null when it was not present. */
  untrack(audience: string, member: Member): Change | null {
    const audienceState = this.#audiences.get(audience);
    const before = audienceState?.members.get(member);
    if (!audienceState || !before) return null;
    audienceState.members.delete(member);
    audienceState.bytes -= before.bytes;
    if (audienceState.members.size === 0) this.#audiences.delete(audience);
    return { left: before };
  }
}

/** Groups presences by key. */
export function stateOf(appearances: Iterable<Appearance>): PresenceState {
  // A key may be any text, `__proto__` too.
  const state: PresenceState = Object.create(null);
  for (const { key, meta } of appearances) {
    state[key] ??= { metas: [] };
    state[key].metas.push(meta);
  }
  return state;
}
