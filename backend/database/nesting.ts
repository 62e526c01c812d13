// Texts that open bracket after bracket: PostgreSQL reads JSON, arrays, patterns and searches by calling itself for each,
// and the embedded one has so little room for that, that it breaks for good where a server says "stack depth limit exceeded".

const deepest = 1000;

/**
 * Whether a text may be nested more deeply than the embedded database can read, as whatever it is read.
 * @param text a parameter of a statement
 */
export function isNestedTooDeeply(text: string): boolean {
  // Most texts are too short for it.
  if (text.length <= deepest) return false;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x5b: // [
      case 0x7b: // {
      case 0x28: // (
        depth += 1;
        if (depth > deepest) return true;
        break;
      case 0x5d: // ]
      case 0x7d: // }
      case 0x29: // )
        if (depth > 0) depth -= 1;
        break;
      default:
    }
  }
  return false;
}
