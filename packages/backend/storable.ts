// Whether PostgreSQL can store a client's value: JSON allows texts that columns refuse.

/** Maximum nesting: far more than a client needs, far less than breaks a parser. */
const deepest = 200;

/** Whether a text can be stored: it has no NUL character and no lone surrogate. */
export function isStorableText(text: string): boolean {
  return !/\0|\p{Surrogate}/u.test(text);
}

/**
 * Whether a value from JSON can be stored, its keys included.
 * @param value as `JSON.parse` returns it, at any depth
 * @param isText which texts may be in it
 */
export function isStorable(value: unknown, isText: (text: string) => boolean = isStorableText): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > deepest) return false;
    const next: unknown[] = [];
    for (const one of level) {
      if (typeof one === 'string' && !isText(one)) return false;
      if (typeof one !== 'object' || one === null) continue;
      for (const [name, within] of Object.entries(one)) {
        if (!isText(name)) return false;
        next.push(within);
      }
    }
    level = next;
  }
  return true;
}
