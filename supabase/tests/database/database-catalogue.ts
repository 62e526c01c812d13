// Describes a database as comparable lines: tables, columns, constraints, indexes, functions, triggers, policies,
// grants, comments and publications of the shop.
import type { Session } from '@jani-juice/backend/database';

/**
 * Describes the objects of the shop's schemas, and policies and triggers wherever they are.
 * @returns definition by object, such as `function public.place_order(...)`
 */
export async function describeCatalogue(database: Pick<Session, 'query'>): Promise<Map<string, string>> {
  const { rows } = await database.query<{ object: string; definition: string }>(catalogueQuery, []);
  return new Map(rows.map(({ object, definition }) => [object, definition]));
}

/** Absent grants are the defaults: both forms return the same text. */
const grants = (acl: string, kind: string, owner: string) =>
  `(select coalesce(string_agg(a::text, ' ' order by a::text), '') from unnest(coalesce(${acl}, acldefault('${kind}', ${owner}))) as a)`;

const catalogueQuery = `
with own as (
  select n.oid, n.nspname, n.nspowner, n.nspacl from pg_namespace as n where n.nspname in ('public', 'private')
), described (object, definition) as (
  select 'schema ' || o.nspname, ${grants('o.nspacl', 'n', 'o.nspowner')} from own as o where o.nspname = 'private'
  union all
  select 'extension ' || e.extname, n.nspname
  from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace
  union all
  select 'default grants ' || d.defaclobjtype::text || ' ' || coalesce(n.nspname, ''), ${grants('d.defaclacl', 'r', 'd.defaclrole')}
  from pg_default_acl as d left join pg_namespace as n on n.oid = d.defaclnamespace
  union all
  select 'relation ' || c.oid::regclass, concat_ws(
    ' | ', c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.relreplident, c.reloptions::text,
    ${grants('c.relacl', 'r', 'c.relowner')}, obj_description(c.oid, 'pg_class')
  )
  from pg_class as c join own as o on o.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'S')
  union all
  select 'column ' || c.oid::regclass || '.' || a.attname, concat_ws(
    ' | ', row_number() over (partition by c.oid order by a.attnum), format_type(a.atttypid, a.atttypmod), a.attnotnull,
    a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid), nullif(a.attcollation, t.typcollation)::regcollation,
    a.attacl::text, col_description(c.oid, a.attnum)
  )
  from pg_attribute as a
  join pg_class as c on c.oid = a.attrelid
  join own as o on o.oid = c.relnamespace
  join pg_type as t on t.oid = a.atttypid
  left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0 and not a.attisdropped
  union all
  select 'constraint ' || c.conrelid::regclass || ' ' || c.conname,
    concat_ws(' | ', pg_get_constraintdef(c.oid), obj_description(c.oid, 'pg_constraint'))
  from pg_constraint as c join own as o on o.oid = c.connamespace
  where c.conrelid <> 0 and c.contype <> 'n'
  union all
  select 'index ' || i.indexrelid::regclass,
    concat_ws(' | ', pg_get_indexdef(i.indexrelid), obj_description(i.indexrelid, 'pg_class'))
  from pg_index as i join pg_class as c on c.oid = i.indrelid join own as o on o.oid = c.relnamespace
  union all
  select 'function ' || p.oid::regprocedure,
    concat_ws(' | ', pg_get_functiondef(p.oid), ${grants('p.proacl', 'f', 'p.proowner')}, obj_description(p.oid, 'pg_proc'))
  from pg_proc as p join own as o on o.oid = p.pronamespace
  where p.prokind in ('f', 'p')
  union all
  select 'trigger ' || t.tgrelid::regclass || ' ' || t.tgname,
    concat_ws(' | ', pg_get_triggerdef(t.oid), t.tgenabled, obj_description(t.oid, 'pg_trigger'))
  from pg_trigger as t
  where not t.tgisinternal
  union all
  select 'policy ' || p.schemaname || '.' || p.tablename || ' ' || p.policyname,
    concat_ws(' | ', p.permissive, p.roles::text, p.cmd, p.qual, 'check', p.with_check)
  from pg_policies as p
  union all
  select 'type ' || t.oid::regtype, concat_ws(
    ' | ', t.typtype, (select string_agg(e.enumlabel, ', ' order by e.enumsortorder) from pg_enum as e where e.enumtypid = t.oid),
    (
      select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)
      from pg_attribute as a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ),
    obj_description(t.oid, 'pg_type')
  )
  from pg_type as t join own as o on o.oid = t.typnamespace left join pg_class as c on c.oid = t.typrelid
  where t.typtype in ('c', 'd', 'e') and coalesce(c.relkind, 'c') = 'c'
  union all
  select 'text search dictionary ' || d.dictname, d.dictinitoption
  from pg_ts_dict as d join own as o on o.oid = d.dictnamespace
  union all
  select 'text search mapping ' || c.cfgname || ' ' || m.maptokentype || ' ' || m.mapseqno, m.mapdict::regdictionary::text
  from pg_ts_config as c join own as o on o.oid = c.cfgnamespace join pg_ts_config_map as m on m.mapcfg = c.oid
  union all
  select 'published ' || p.pubname || ' ' || p.schemaname || '.' || p.tablename, ''
  from pg_publication_tables as p
)
select object, coalesce(definition, '') as definition from described order by object`;
