// The version of the shop that a process runs, for staff.

export interface RunningVersion {
  /** Name of the release. Null in development. */
  release: string | null;
  /** When its sources were last changed, by their history; null where they have none. ISO, as the other times. */
  changedAt: string | null;
  /** The last change of its sources; null where they have no history. */
  commit: string | null;
  builtAt: string | null;
  startedAt: string;
}
