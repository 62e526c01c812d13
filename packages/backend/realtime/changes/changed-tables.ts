// Reads from the catalogue which tables are published and how clients see their columns.

import { requestRoles } from '../../database/as-role.ts';
import type { Database } from '../../database/database.ts';

/** A column of a table. */
export interface TableColumn {
  name: string;
  /** The type's bare name, such as int4 or _text, as sent to clients. */
  typeName: string;
  /** The schema-qualified type, quoted for SQL. */
  type: string;
  isKey: boolean;
  /** Request roles that may select it. */
  readers: string[];
}

/** A table. */
export interface ChangedTable {
  relation: number;
  /** Schema-qualified and quoted for SQL. */
  name: string;
  /** Whether row level security is on. */
  isSecured: boolean;
  columns: TableColumn[];
}

/**
 * Describes tables.
 * @param relations oids
 * @returns by oid; without tables that do not exist any more
 */
export async function describeTables(
  database: Database,
  relations: readonly number[],
): Promise<Map<number, ChangedTable>> {
  const { rows } = await database.query<ChangedTable>(
    `select c.oid::int8 as relation, format('%I.%I', n.nspname, c.relname) as name, c.relrowsecurity as "isSecured",
            jsonb_agg(jsonb_build_object(
              'name', a.attname,
              'typeName', t.typname,
              'type', format('%I.%I', tn.nspname, t.typname),
              'isKey', coalesce(a.attnum = any(i.indkey), false),
              'readers', (
                select coalesce(jsonb_agg(role), '[]') from unnest($2::text[]) as role
                where has_column_privilege(role, c.oid, a.attnum, 'select')
              )
            ) order by a.attnum) as columns
     from pg_class as c
     join pg_namespace as n on n.oid = c.relnamespace
     join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     join pg_type as t on t.oid = a.atttypid
     join pg_namespace as tn on tn.oid = t.typnamespace
     left join pg_index as i on i.indrelid = c.oid and i.indisprimary
     where c.oid = any($1::oid[])
     group by c.oid, n.nspname`,
    [`{${relations.join(',')}}`, `{${[...requestRoles].join(',')}}`],
  );
  return new Map(rows.map((table) => [table.relation, table]));
}

/**
 * Members of the publication.
 * @param schema `*` for all
 * @param table `*` for all
 * @returns their oids
 */
async function publishedTables(database: Database, schema: string, table: string): Promise<number[]> {
  const { rows } = await database.query<{ relation: number }>(
    `select c.oid::int8 as relation
     from pg_publication_tables as p
     join pg_namespace as n on n.nspname = p.schemaname
     join pg_class as c on c.relnamespace = n.oid and c.relname = p.tablename
     where p.pubname = 'supabase_realtime'
       and $1::text in ('*', p.schemaname::text) and $2::text in ('*', p.tablename::text)`,
    [schema, table],
  );
  return rows.map(({ relation }) => relation);
}

/**
 * Descriptions of published tables, for joins: many clients subscribe to the same few tables at once. Read again after a second,
 * because not every change of grants or of the publication is announced.
 */
export class PublishedTables {
  readonly #database: Database;
  readonly #known = new Map<string, { readAt: number; tables: Promise<readonly ChangedTable[]> }>();
  #forgetAt = 0;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Describes the members of the publication that have these names; `*` for all.
   * @param readSince how old the description may be: what `performance.now()` said then
   */
  find(schema: string, table: string, readSince = 0): Promise<readonly ChangedTable[]> {
    const now = performance.now();
    if (now > this.#forgetAt) this.forget();
    const names = JSON.stringify([schema, table]);
    const known = this.#known.get(names);
    if (known && known.readAt >= readSince) return known.tables;
    const read = { readAt: now, tables: this.#describe(schema, table) };
    this.#known.set(names, read);
    read.tables.catch(() => {
      if (this.#known.get(names) === read) this.#known.delete(names);
    });
    return read.tables;
  }

  /** Reads the catalogue again at the next call. */
  forget(): void {
    this.#known.clear();
    this.#forgetAt = performance.now() + 1000;
  }

  async #describe(schema: string, table: string): Promise<readonly ChangedTable[]> {
    const relations = await publishedTables(this.#database, schema, table);
    return relations.length === 0 ? [] : [...(await describeTables(this.#database, relations)).values()];
  }
}

/** A name as an SQL identifier. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
