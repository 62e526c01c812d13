// Finds UPDATE and DELETE statements without a WHERE in the body of a function. Hosted projects refuse them (pg-safeupdate).

/**
 * Lists the statements that would be rejected.
 * @param body text of a function in SQL or PL/pgSQL
 * @returns the beginning of each UPDATE or DELETE without its own WHERE
 */
export function writesWithoutWhere(body: string): string[] {
  const code = body.replace(/--[^\n]*|\/\*[\s\S]*?\*\//g, ' ').replace(/'(?:[^']|'')*'/g, "''");
  const found: string[] = [];
  for (const { index, 0: start } of code.matchAll(
    /\bdelete\s+from\b|\bupdate\s+[\w."]+\s+(?:as\s+\w+\s+)?set\b/gi,
  )) {
    const statement = statementAt(code, index);
    if (!hasOwnWhere(statement))
      found.push(
        statement
          .slice(0, start.length + 40)
          .replace(/\s+/g, ' ')
          .trim(),
      );
  }
  return found;
}

/** The text up to the semicolon, or to the end of the parentheses that hold the statement. */
function statementAt(code: string, from: number): string {
  let depth = 0;
  for (let at = from; at < code.length; at += 1) {
    const character = code[at];
    if (character === '(') depth += 1;
    if (character === ')') depth -= 1;
    if (depth < 0 || (depth === 0 && character === ';')) return code.slice(from, at);
  }
  return code.slice(from);
}

/** Whether a statement has a WHERE outside of all parentheses, that is, not only in a subquery. */
function hasOwnWhere(statement: string): boolean {
  let text = statement;
  let shorter = text.replace(/\([^()]*\)/g, ' ');
  while (shorter !== text) {
    text = shorter;
    shorter = text.replace(/\([^()]*\)/g, ' ');
  }
  return /\bwhere\b/i.test(text);
}
