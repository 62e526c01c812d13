// What a database can keep of what strangers send: JSON allows for texts that no column takes.

/** Levels of values within values: far more than anybody means, far less than the reading of them can break on. */
const deepest = 200;

/** Whether a text can be kept: it has no zero character and no half of one that takes two. */
export function isKeepableText(text: string): boolean {
  return !/\0|\p{Surrogate}/u.test(text);
}

/**
 * Whether a value from JSON can be kept, its names included.
 * @param value as `JSON.parse` gives it, however deep
 * @param isText which texts may be in it
 */
export function isKeepable(value: unknown, isText: (text: string) => boolean = isKeepableText): boolean {
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
