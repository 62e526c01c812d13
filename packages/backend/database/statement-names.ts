// Names for repeated statements, under which each connection prepares them once.

const usesBeforePreparing = 3;
const maxNames = 300;
const maxCounted = 2000;

/** Assigned names, limited in number: clients choose the shapes of statements. */
export class StatementNames {
  readonly #uses = new Map<string, number>();
  readonly #names = new Map<string, string>();

  /** The name of a statement; null while it is rare. */
  of(sql: string): string | null {
    const name = this.#names.get(sql);
    if (name) return name;
    const count = (this.#uses.get(sql) ?? 0) + 1;
    if (count >= usesBeforePreparing && this.#names.size < maxNames) {
      this.#names.set(sql, `s${this.#names.size}`);
      this.#uses.delete(sql);
    } else {
      if (this.#uses.size > maxCounted) this.#uses.clear();
      this.#uses.set(sql, count);
    }
    return null;
  }
}
