// Traces the columns of views to the table columns they show, by reading PostgreSQL's stored query trees.

export interface ViewDefinition {
  oid: number;
  /** `pg_rewrite.ev_action` as text. */
  definition: string;
}

/** A column of a table, by the table's oid and the column's number. */
export interface ColumnOrigin {
  table: number;
  column: number;
}

/**
 * Reads the definitions of views.
 * @param views all views, so that views of views are followed to the table
 * @returns a function from a view's oid and column number to the table column it shows, null for expressions
 */
export function columnOrigins(
  views: readonly ViewDefinition[],
): (view: number, column: number) => ColumnOrigin | null {
  const targets = new Map(views.map(({ oid, definition }) => [oid, targetsOf(definition)]));
  const trace = (view: number, column: number): ColumnOrigin | null => {
    const passed = new Set([view]);
    let origin = targets.get(view)?.get(column);
    for (let columns = origin && targets.get(origin.table); origin && columns; ) {
      // A recursive view names itself as the origin of its columns.
      if (passed.has(origin.table)) return null;
      passed.add(origin.table);
      origin = columns.get(origin.column);
      columns = origin && targets.get(origin.table);
    }
    return origin ?? null;
  };
  return (view, column) => (targets.has(view) ? trace(view, column) : null);
}

const targetFields = /:resno (\d+) .*:resorigtbl (\d+) :resorigcol (\d+) :resjunk false/s;

function targetsOf(definition: string): Map<number, ColumnOrigin> {
  const origins = new Map<number, ColumnOrigin>();
  for (const entry of entriesOf(definition)) {
    const [, number, table, column] = targetFields.exec(entry) ?? [];
    if (!number || !table || !column || table === '0') continue;
    origins.set(Number(number), { table: Number(table), column: Number(column) });
  }
  return origins;
}

/** The entries of the outermost query's target list, without their nested parts. */
function entriesOf(definition: string): string[] {
  const entries: string[] = [];
  let depth = 0;
  let isInTargets = false;
  let entry = '';
  for (let at = 0; at < definition.length; at++) {
    const character = definition[at];
    // Names and constants escape braces and spaces with a backslash.
    if (character === '\\') {
      if (isInTargets && depth === 2) entry += 'x';
      at++;
    } else if (character === '{') {
      depth++;
    } else if (character === '}') {
      depth--;
      if (isInTargets && depth === 1) {
        entries.push(entry);
        entry = '';
      }
    } else if (depth === 1 && character === ':') {
      // A field of the outermost query begins.
      isInTargets = definition.startsWith(':targetList ', at);
    } else if (isInTargets && depth === 2) {
      entry += character;
    }
  }
  return entries;
}
