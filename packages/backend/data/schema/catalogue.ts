// Reads PostgreSQL's catalogue as rows.

import { arrayLiteral } from '../../database/array-literal.ts';
import type { Session } from '../../database/database.ts';
import type { Column } from './schema-types.ts';

/** A table, view or composite type. */
export interface RelationRow {
  oid: number;
  rowType: number;
  schema: string;
  name: string;
  kind: string;
  updatable: number;
  columns: Array<Omit<Column, 'representation'> & { number: number }>;
}
/** A primary key, unique constraint or foreign key; columns by number. */
interface ConstraintRow {
  name: string;
  kind: 'p' | 'u' | 'f';
  table: number;
  columns: number[];
  foreign: number;
  foreignColumns: number[];
}
/** A function, its arguments with those it returns. */
export interface FunctionRow {
  schema: string;
  name: string;
  volatility: string;
  isSet: boolean;
  isVariadic: boolean;
  estimatedRows: number;
  inputCount: number;
  defaultCount: number;
  names: string[];
  modes: string[];
  types: string[];
  kinds: Column['kind'][];
  firstInput: number | null;
  returnRelation: number;
  returnKind: string;
  /** The domain that is a media type, such as `text/plain`; null otherwise. */
  returnMediaType: string | null;
  isReturnBinary: boolean;
  returnColumnKind: Column['kind'];
  /** Settings the function runs with, in the form of `statement_timeout=1s`. */
  settings: string[];
}
/** An aggregate that produces a media type from rows. */
interface HandlerRow {
  schema: string;
  name: string;
  mediaType: string;
  isBinary: boolean;
  /** Oid of the relation whose rows it accepts; null for any. */
  relation: number | null;
}
/** A cast of a domain that formats or parses its values. */
interface CastRow {
  domain: string;
  direction: 'toJson' | 'fromJson' | 'fromText';
  schema: string;
  name: string;
}
/** A setting of a role, in the form of `statement_timeout=1s`. */
interface RoleSettingRow {
  role: string;
  setting: string;
}
/** A view's stored query tree. */
interface ViewRow {
  oid: number;
  definition: string;
}

const kindOf = (oid: string) => `
  case coalesce((select bases.below from bases where bases.oid = ${oid}), ${oid})
    when 'json'::regtype then 'json' when 'jsonb'::regtype then 'json'
    when 'tsvector'::regtype then 'tsvector' else 'other' end`;

// The base types of domains, through domains of domains.
const withBases = `
  with recursive domain_steps(oid, below) as (
    select oid, typbasetype from pg_type where typtype = 'd'
    union all
    select step.oid, type.typbasetype
    from domain_steps step join pg_type type on type.oid = step.below where type.typtype = 'd'),
  bases as materialized (
    select step.oid, step.below from domain_steps step join pg_type type on type.oid = step.below
    where type.typtype <> 'd')`;

const relationsSql = `${withBases}
  select c.oid::int8 as oid, c.reltype::int8 as "rowType", n.nspname as schema, c.relname as name, c.relkind::text as kind,
    case when c.relkind in ('r', 'p', 'v', 'f') then pg_relation_is_updatable(c.oid, true) else 0 end as updatable,
    coalesce((
      select json_agg(json_build_object(
        'name', a.attname,
        'number', a.attnum,
        'type', format_type(a.atttypid, a.atttypmod),
        'kind', ${kindOf('a.atttypid')},
        'defaultExpression', case
          when a.attgenerated <> '' then null
          when a.attidentity <> '' then (
            select format('nextval(%L::regclass)', sequence.oid::regclass)
            from pg_depend owned join pg_class sequence on sequence.oid = owned.objid and sequence.relkind = 'S'
            where owned.classid = 'pg_class'::regclass and owned.refclassid = 'pg_class'::regclass
              and owned.refobjid = c.oid and owned.refobjsubid = a.attnum and owned.deptype = 'i')
          else coalesce(pg_get_expr(d.adbin, d.adrelid), (
            select pg_get_expr(of.typdefaultbin, 0) from pg_type of where of.oid = a.atttypid)) end
      ) order by a.attnum)
      from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '[]') as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'm', 'f', 'c') and not c.relispartition
    and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_toast%'
  order by n.nspname, c.relname`;

const constraintsSql = `
  select conname as name, contype::text as kind, conrelid::int8 as table, to_json(conkey) as columns,
    confrelid::int8 as foreign, coalesce(to_json(confkey), '[]') as "foreignColumns"
  from pg_constraint
  where contype in ('p', 'u', 'f') and conrelid <> 0 and conparentid = 0
  order by conname, conrelid`;

const viewsSql = `
  select c.oid::int8 as oid, r.ev_action::text as definition
  from pg_rewrite r join pg_class c on c.oid = r.ev_class join pg_namespace n on n.oid = c.relnamespace
  where r.rulename = '_RETURN' and n.nspname not in ('pg_catalog', 'information_schema')`;

// Media types are domains named like one.
const isMediaType = (type: string) =>
  `(${type}.typtype = 'd' and (${type}.typname = '*/*' or ${type}.typname ~ '^[A-Za-z0-9.-]+/[A-Za-z0-9.+-]+$'))`;

const functionsSql = `${withBases}
  select n.nspname as schema, p.proname as name, p.provolatile::text as volatility, p.proretset as "isSet",
    p.provariadic <> 0 as "isVariadic", p.prorows as "estimatedRows",
    p.pronargs as "inputCount", p.pronargdefaults as "defaultCount",
    coalesce(to_json(p.proargnames), '[]') as names, coalesce(to_json(p.proargmodes::text[]), '[]') as modes,
    coalesce(arguments.types, '[]') as types, coalesce(arguments.kinds, '[]') as kinds,
    case when p.pronargs >= 1 then (p.proargtypes::oid[])[0]::int8 end as "firstInput",
    coalesce(nullif(returned.typrelid, 0), domain_of.typrelid, 0)::int8 as "returnRelation",
    case when p.prorettype = 'void'::regtype then 'void'
      when p.prorettype = 'record'::regtype then 'record'
      when coalesce(domain_of.typtype, returned.typtype) = 'c' then 'composite' else 'scalar' end as "returnKind",
    case when ${isMediaType('returned')} then lower(returned.typname) end as "returnMediaType",
    coalesce((select bases.below from bases where bases.oid = p.prorettype), p.prorettype) = 'bytea'::regtype
      as "isReturnBinary",
    ${kindOf('p.prorettype')} as "returnColumnKind", coalesce(to_json(p.proconfig), '[]') as settings
  from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    join pg_type returned on returned.oid = p.prorettype
    left join pg_type domain_of on domain_of.oid = returned.typbasetype and returned.typbasetype <> 0
    left join lateral (
      select json_agg(format_type(t.oid, -1) order by t.at) as types, json_agg(${kindOf('t.oid')} order by t.at) as kinds
      from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as t(oid, at)
    ) arguments on true
  where p.prokind = 'f'
    and (n.nspname = any($1) or (n.nspname = any($2) and p.pronargs = 1 and exists (
      select from pg_type row_type where row_type.oid = p.proargtypes[0] and row_type.typtype = 'c')))
    and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
  order by n.nspname, p.proname, p.oid`;

const handlersSql = `${withBases}
  select n.nspname as schema, p.proname as name, lower(made.typname) as "mediaType",
    (select bases.below from bases where bases.oid = made.oid) = 'bytea'::regtype as "isBinary",
    c.oid::int8 as relation
  from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    join pg_type made on made.oid = p.prorettype
    left join pg_class c on c.reltype = p.proargtypes[0]
  where p.prokind = 'a' and p.pronargs = 1 and n.nspname = any($1) and ${isMediaType('made')}
    and (c.oid is not null or p.proargtypes[0] = 'anyelement'::regtype)
  order by p.oid`;

const geoJsonSql = `
  select n.nspname as schema, p.proname as name
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where p.proname = 'st_asgeojson' and p.proargtypes[0] in ('record'::regtype, 'anyelement'::regtype)`;

const castsSql = `
  select format_type(domain.oid, null) as domain, given.direction, n.nspname as schema, p.proname as name
  from pg_cast c
    join pg_proc p on p.oid = c.castfunc
    join pg_namespace n on n.oid = p.pronamespace
    cross join lateral (values
      ('toJson', c.castsource, c.casttarget, 'json'::regtype),
      ('fromJson', c.casttarget, c.castsource, 'json'::regtype),
      ('fromText', c.casttarget, c.castsource, 'text'::regtype)
    ) as given(direction, domain, other, form)
    join pg_type domain on domain.oid = given.domain and domain.typtype = 'd'
  where c.castcontext = 'i' and c.castmethod = 'f' and given.other = given.form`;

// Only settings that any session or this database's user may set.
const roleSettingsSql = `
  select r.rolname as role, given.setting
  from pg_db_role_setting s
    join pg_roles r on r.oid = s.setrole
    cross join lateral unnest(s.setconfig) as given(setting)
  where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
    and exists (
      select from pg_settings known
      where known.name = split_part(given.setting, '=', 1)
        and (known.context = 'user' or (known.context = 'superuser' and has_parameter_privilege(known.name, 'set'))))
  order by s.setdatabase`;

const typesSql = `
  select t.typname as name, format_type(t.oid, -1) as type
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  where t.typtype in ('b', 'e', 'd', 'r') and (t.typelem = 0 or t.typcategory = 'A') and (n.nspname = 'pg_catalog' or n.nspname = any($1) or n.nspname = any($2))
  order by n.nspname = 'pg_catalog', n.nspname = any($2) and not n.nspname = any($1)`;

export interface Catalogue {
  schemas: readonly string[];
  relations: RelationRow[];
  constraints: ConstraintRow[];
  views: ViewRow[];
  functions: FunctionRow[];
  types: Array<{ name: string; type: string }>;
  handlers: HandlerRow[];
  casts: CastRow[];
  roleSettings: RoleSettingRow[];
  geoJsonFunctions: Array<{ schema: string; name: string }>;
}

/**
 * Reads the catalogue.
 * @param session an open transaction whose search_path is empty, so that every type and function is qualified
 * @param schemas the exposed schemas
 * @param searched further schemas in which types and functions of a row are found
 */
export async function readCatalogue(
  session: Session,
  schemas: readonly string[],
  searched: readonly string[],
): Promise<Catalogue> {
  const exposed = [arrayLiteral(schemas)];
  const [relations, constraints, views, functions, types, handlers, casts, roleSettings, geoJsonFunctions] =
    await Promise.all([
      session.query<RelationRow>(relationsSql),
      session.query<ConstraintRow>(constraintsSql),
      session.query<ViewRow>(viewsSql),
      session.query<FunctionRow>(functionsSql, [...exposed, arrayLiteral(searched)]),
      session.query<{ name: string; type: string }>(typesSql, [...exposed, arrayLiteral(searched)]),
      session.query<HandlerRow>(handlersSql, exposed),
      session.query<CastRow>(castsSql),
      session.query<RoleSettingRow>(roleSettingsSql),
      session.query<{ schema: string; name: string }>(geoJsonSql),
    ]);
  return {
    schemas,
    relations: relations.rows,
    constraints: constraints.rows,
    views: views.rows,
    functions: functions.rows,
    types: types.rows,
    handlers: handlers.rows,
    casts: casts.rows,
    roleSettings: roleSettings.rows,
    geoJsonFunctions: geoJsonFunctions.rows,
  };
}
