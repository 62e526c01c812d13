// Rows of tables as text that PGlite and every version of PostgreSQL read and print alike: each row is one line, a JSON array of its
// columns' texts. It holds every value that pg_dump would: unlike the row as a JSON object, it distinguishes a JSON null from no value.
import { createHash } from 'node:crypto';
import { type Session, settingsParameters, settingsStatement } from '@jani-juice/backend/database';

/** A table with its stored columns; generated ones are left out. The names are quoted where SQL needs it. */
export interface Table {
  name: string;
  columns: { name: string; type: string }[];
}

/** Rows of a table as they were read: how many, and a hash that does not depend on their order. */
export interface Digest {
  rows: number;
  hash: string;
}

const batchRows = 500;

/** Sets what texts of values depend on, until the transaction ends. */
export async function setTextForm(session: Session): Promise<void> {
  await session.query(
    settingsStatement,
    settingsParameters({
      search_path: '',
      TimeZone: 'UTC',
      DateStyle: 'ISO, YMD',
      IntervalStyle: 'postgres',
      bytea_output: 'hex',
      extra_float_digits: '1',
    }),
  );
}

/**
 * Lists the tables whose rows make up a shop, each after those that it references. Unlogged tables are left out: they are empty after
 * every restart of a server that was killed. So is the schema `realtime`: its rows are events of the last minutes.
 */
export async function listTables(session: Session): Promise<Table[]> {
  interface Row extends Table {
    id: number;
    references: number[];
  }
  const { rows } = await session.query<Row>(
    `select c.oid::integer as id, format('%I.%I', n.nspname, c.relname) as name,
       (select json_agg(json_build_object('name', quote_ident(a.attname), 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum)
        from pg_catalog.pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '') as columns,
       (select coalesce(json_agg(f.confrelid::integer), '[]') from pg_catalog.pg_constraint as f
        where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid) as references
     from pg_catalog.pg_class as c join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
       and n.nspname in ('public', 'private', 'auth', 'storage')
       and not exists (select from pg_catalog.pg_depend as d
                       where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
     order by 2`,
  );
  const listed: Row[] = [];
  const waiting = new Set(rows);
  while (waiting.size > 0) {
    const isReady = (row: Row) => ![...waiting].some(({ id }) => row.references.includes(id));
    const ready = [...waiting].filter(isReady);
    if (ready.length === 0) {
      throw new Error(`tables reference each other in a circle: ${[...waiting].map(({ name }) => name)}`);
    }
    for (const row of ready) {
      listed.push(row);
      waiting.delete(row);
    }
  }
  return listed.map(({ name, columns }) => ({ name, columns }));
}

/** Reads a table within a transaction, some hundred lines at a time. */
export async function* readLines(session: Session, { name, columns }: Table): AsyncIterable<string[]> {
  const texts = columns.map((column) => `${column.name}::text`);
  await session.query(
    `declare read_lines no scroll cursor for select to_json(array[${texts}])::text as line from ${name}`,
  );
  for (let read = batchRows; read === batchRows; ) {
    const { rows } = await session.query<{ line: string }>(`fetch forward ${batchRows} from read_lines`);
    read = rows.length;
    if (read > 0) yield rows.map(({ line }) => line);
  }
  await session.query('close read_lines');
}

/** Inserts lines of a table with these columns. */
export async function insertLines(
  session: Session,
  { name, columns }: Table,
  lines: readonly string[],
): Promise<void> {
  const names = columns.map((column) => column.name);
  const values = columns.map(({ type }, index) => `(line ->> ${index})::${type}`);
  await session.query(
    `insert into ${name} (${names}) overriding system value
     select ${values} from pg_catalog.jsonb_array_elements($1::jsonb) as given (line)`,
    [`[${lines.join(',')}]`],
  );
}

/** Computes the digest of lines. */
export class LineDigest {
  #rows = 0;
  readonly #sums = [0, 0, 0, 0];

  add(lines: readonly string[]): void {
    for (const line of lines) {
      const hash = createHash('sha256').update(line).digest();
      this.#rows += 1;
      // A sum does not depend on the order, and counts equal lines, unlike an exclusive or.
      for (const index of this.#sums.keys()) {
        this.#sums[index] = ((this.#sums[index] ?? 0) + hash.readUInt32BE(4 * index)) >>> 0;
      }
    }
  }

  result(): Digest {
    const hash = this.#sums.map((sum) => sum.toString(16).padStart(8, '0')).join('');
    return { rows: this.#rows, hash };
  }
}

/** Reads a table and returns its digest. */
export async function digestOf(session: Session, table: Table): Promise<Digest> {
  const digest = new LineDigest();
  for await (const lines of readLines(session, table)) digest.add(lines);
  return digest.result();
}
