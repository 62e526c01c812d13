// Deeply nested texts: PostgreSQL parses JSON, arrays, patterns and searches recursively. A server reports "stack depth limit
// exceeded"; the embedded database has little stack and breaks permanently.

const deepest = 1000;

/**
 * Whether a text may be nested too deeply for the embedded database, in any of its types.
 * @param text a parameter of a statement
 */
export function isNestedTooDeeply(text: string): boolean {
  // Most texts are too short, or have too few brackets.
  if (text.length <= deepest || depthOf(text, false) <= deepest) return false;
  // Brackets within a JSON string do not nest.
  return !isJson(text) || depthOf(text, true) > deepest;
}

function depthOf(text: string, leavesOutStrings: boolean): number {
  let depth = 0;
  let greatest = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x5b: // [
      case 0x7b: // {
      case 0x28: // (
        depth += 1;
        if (depth > greatest) greatest = depth;
        break;
      case 0x5d: // ]
      case 0x7d: // }
      case 0x29: // )
        if (depth > 0) depth -= 1;
        break;
      case 0x22: // "
        if (leavesOutStrings) at = endOfString(text, at);
        break;
      default:
    }
  }
  return greatest;
}

function endOfString(text: string, start: number): number {
  let at = start + 1;
  while (at < text.length && text.charCodeAt(at) !== 0x22) at += text.charCodeAt(at) === 0x5c ? 2 : 1;
  return at;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
