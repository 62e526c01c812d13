// Reads the parts of a schema's description that the schema cache lacks: comments, and the role's privileges.
import type { DescriptionPlan } from '../plan/plan-types.ts';
import type { Statement } from '../sql/sql-writer.ts';

/** Properties of a column that the schema cache lacks. */
export interface DescribedColumn {
  name: string;
  comment: string | null;
  /** Without length or precision; of a domain over a type of PostgreSQL's own, that type; null for other types. */
  builtInType: string | null;
  isNullable: boolean;
  maxLength: number | null;
  enumValues: string[] | null;
}

export interface DescribedRelation {
  name: string;
  comment: string | null;
  columns: DescribedColumn[];
}

export interface DescribedFunction {
  name: string;
  comment: string | null;
  isVolatile: boolean;
  parameters: Array<{ name: string; type: string; isRequired: boolean; isVariadic: boolean }>;
}

/** The statement's single row. */
export interface DescribedSchema {
  comment: string | null;
  relations: DescribedRelation[];
  functions: DescribedFunction[];
}

const columnsSql = `
  select json_agg(json_build_object(
    'name', a.attname,
    'comment', col_description(c.oid, a.attnum),
    'builtInType', case when coalesce(base.typnamespace, type.typnamespace) = 'pg_catalog'::regnamespace
      then format_type(coalesce(base.oid, type.oid), null) end,
    'isNullable', not (a.attnotnull or type.typnotnull),
    'maxLength', case when type.oid in ('varchar'::regtype, 'bpchar'::regtype) and a.atttypmod > 4
      then a.atttypmod - 4 end,
    'enumValues', (
      select json_agg(e.enumlabel order by e.enumsortorder) from pg_enum e where e.enumtypid in (type.oid, base.oid))
  ) order by a.attnum)
  from pg_attribute a
    join pg_type type on type.oid = a.atttypid
    left join pg_type base on base.oid = type.typbasetype and type.typtype = 'd'
  where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped`;

const relationsSql = `
  select json_agg(json_build_object(
    'name', c.relname, 'comment', obj_description(c.oid, 'pg_class'), 'columns', coalesce((${columnsSql}), '[]')
  ) order by c.relname)
  from pg_class c
  where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
    and (not $2::boolean
      or has_table_privilege(c.oid, 'select, insert, update, delete, truncate, references, trigger')
      or has_any_column_privilege(c.oid, 'select, insert, update, references'))`;

const parametersSql = `
  select json_agg(json_build_object(
    'name', coalesce(p.proargnames[given.at], ''),
    'type', format_type(given.type, null),
    'isRequired', given.position <= p.pronargs - p.pronargdefaults,
    'isVariadic', coalesce(p.proargmodes[given.at], 'i') = 'v'
  ) order by given.position)
  from (
    select a.type, a.at, row_number() over (order by a.at) as position
    from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as a(type, at)
    where coalesce(p.proargmodes[a.at], 'i') in ('i', 'b', 'v')
  ) as given`;

const functionsSql = `
  select json_agg(json_build_object(
    'name', p.proname,
    'comment', obj_description(p.oid, 'pg_proc'),
    'isVolatile', p.provolatile = 'v',
    'parameters', coalesce((${parametersSql}), '[]')
  ) order by p.proname, p.oid)
  from pg_proc p
  where p.pronamespace = n.oid and p.prokind = 'f'
    and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
    and (not $2::boolean or has_function_privilege(p.oid, 'execute'))`;

/**
 * Writes the statement that returns one `DescribedSchema`. It runs as the role: its privileges count, and types on its
 * search path are named without their schema.
 */
export function writeDescription({ schema, followsPrivileges }: DescriptionPlan): Statement {
  const sql = `select obj_description(n.oid, 'pg_namespace') as comment, coalesce((${relationsSql}), '[]') as relations,
  coalesce((${functionsSql}), '[]') as functions from pg_namespace n where n.nspname = $1::text`;
  return { sql, parameters: [schema, String(followsPrivileges)] };
}
