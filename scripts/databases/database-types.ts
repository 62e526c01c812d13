// Generates the `Database` type of supabase-js from the public schema.
import type { Database } from '@jani-juice/backend/database';

interface Column {
  table: string;
  name: string;
  type: string;
  is_nullable: boolean;
  has_default: boolean;
  is_generated: boolean;
  /** The constraint that lists its values: `CHECK ((status = ANY (ARRAY['paid'::text, ...])))`. */
  values_check: string | null;
}
interface Relationship {
  table: string;
  constraint_name: string;
  columns: string[];
  referenced: string;
  referenced_columns: string[];
  is_one_to_one: boolean;
}
interface Composite {
  name: string;
  columns: { name: string; type: string }[];
}
interface Procedure {
  name: string;
  arguments: { name: string; type: string; has_default: boolean }[];
  returns: string;
  /** The table whose rows it returns. */
  rows_of: string | null;
  /** Columns of a function that returns a table. */
  returned_columns: { name: string; type: string }[] | null;
  is_set: boolean;
  /** The table whose rows it takes as its only argument: a computed column of that table. */
  column_of: string | null;
}

/** Columns, and fields and arguments of functions, whose values are those of another column. */
const heldColumns: Readonly<Record<string, string>> = {
  'leased_message.channel': 'outbox_messages.channel',
  'leased_message.kind': 'outbox_messages.kind',
  'message_budgets.channel': 'outbox_messages.channel',
  'messages_to_check.source': 'payment_messages.source',
  'note_change.kind': 'change_notes.kind',
  'note_change.way': 'change_notes.way',
  'receive_mpesa_transaction.source': 'payment_messages.source',
  'reconciliation_row.method': 'payments.method',
  'reconciliation_row.order_payment_status': 'orders.payment_status',
  'reconciliation_row.order_status': 'orders.status',
  'reconciliation_row.payment_status': 'payments.status',
  'reconciliation_row.refund_status': 'refunds.status',
  'reconciliation_row.resolution': 'reconciliation_events.kind',
  'record_backup.outcome': 'backups.outcome',
  'record_push.refusal_ended_by': 'payments.ended_by',
  'refund_part.way': 'change_notes.way',
  'set_delivery_status.expected_status': 'deliveries.delivery_status',
  'set_delivery_status.status': 'deliveries.delivery_status',
  'set_order_status.expected_payment_status': 'orders.payment_status',
  'set_order_status.expected_status': 'orders.status',
  'set_order_status.status': 'orders.status',
  'settle_payment.ended_by': 'payments.ended_by',
  'settle_payment.source': 'payment_messages.source',
  'settle_reversal.source': 'payment_messages.source',
  'suggested_order.payment_status': 'orders.payment_status',
  'suggested_order.status': 'orders.status',
  'system_status.last_attempt_outcome': 'backups.outcome',
  'system_status.last_backup_outcome': 'backups.outcome',
};

const columnsQuery = `
  select c.relname as table, a.attname as name, t.typname as type, not a.attnotnull as is_nullable,
         a.atthasdef or a.attidentity <> '' as has_default, a.attidentity = 'a' or a.attgenerated <> '' as is_generated,
         (
           select pg_get_constraintdef(k.oid) from pg_constraint k
           where k.conrelid = a.attrelid and k.contype = 'c' and k.conkey = array[a.attnum]
             and pg_get_constraintdef(k.oid) like format('CHECK ((%I = ANY (ARRAY[%%''::text])))', a.attname)
         ) as values_check
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
  join pg_type t on t.oid = a.atttypid
  where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'p') and a.attnum > 0 and not a.attisdropped
  order by c.relname, a.attname`;

const relationshipsQuery = `
  select c.relname as table, k.conname as constraint_name, f.relname as referenced,
         (select array_agg(a.attname::text order by u.position) from unnest(k.conkey) with ordinality u (number, position)
            join pg_attribute a on a.attrelid = k.conrelid and a.attnum = u.number) as columns,
         (select array_agg(a.attname::text order by u.position) from unnest(k.confkey) with ordinality u (number, position)
            join pg_attribute a on a.attrelid = k.confrelid and a.attnum = u.number) as referenced_columns,
         exists (select from pg_index i where i.indrelid = k.conrelid and i.indisunique and i.indpred is null
            and i.indkey::int2[] @> k.conkey and i.indkey::int2[] <@ k.conkey) as is_one_to_one
  from pg_constraint k
  join pg_class c on c.oid = k.conrelid
  join pg_class f on f.oid = k.confrelid
  where k.contype = 'f' and c.relnamespace = 'public'::regnamespace and f.relnamespace = 'public'::regnamespace
  order by c.relname, k.conname`;

const proceduresQuery = `
  select p.proname as name, t.typname as returns, p.proretset as is_set,
         (select c.relname from pg_class c
            where c.oid = t.typrelid and c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'p')) as rows_of,
         (select c.relname from pg_class c
            where p.pronargs = 1 and not p.proretset and c.reltype = p.proargtypes[0]
              and c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'v', 'p')) as column_of,
         coalesce((
           select json_agg(json_build_object(
             'name', u.name, 'type', format_type(u.type, null), 'has_default', u.position > p.pronargs - p.pronargdefaults
           ) order by u.position)
           from unnest(p.proargnames[:p.pronargs], p.proargtypes::oid[]) with ordinality u (name, type, position)
         ), '[]') as arguments,
         (
           select json_agg(json_build_object('name', u.name, 'type', format_type(u.type, null)) order by u.position)
           from unnest(p.proargnames, p.proallargtypes, p.proargmodes) with ordinality u (name, type, mode, position)
           where u.mode = 't'
         ) as returned_columns
  from pg_proc p
  join pg_type t on t.oid = p.prorettype
  where p.pronamespace = 'public'::regnamespace and p.prokind = 'f' and t.typname <> 'trigger'
  order by p.proname`;

const compositesQuery = `
  select t.typname as name, json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, null)) order by a.attnum) as columns
  from pg_type t
  join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where t.typnamespace = 'public'::regnamespace
  group by t.typname
  order by t.typname`;

/**
 * Describes the public schema as TypeScript.
 * @param database a migrated database
 * @returns the text of `supabase/types.ts`
 */
export async function describeDatabase(database: Database): Promise<string> {
  const columns = await database.query<Column>(columnsQuery);
  const relationships = await database.query<Relationship>(relationshipsQuery);
  const procedures = await database.query<Procedure>(proceduresQuery);
  const composites = await database.query<Composite>(compositesQuery);
  const rows = new Map<string, string>([
    ...columns.rows.map(({ table }) => [table, `Database['public']['Tables']['${table}']['Row']`] as const),
    ...composites.rows.map(({ name }) => [name, `Database['public']['CompositeTypes']['${name}']`] as const),
  ]);
  const valuesOf = new Map<string, string[]>(
    columns.rows.flatMap(({ table, name, values_check }) =>
      values_check === null ? [] : [[`${table}.${name}`, values_check.match(/'[^']*'/g) ?? []] as const],
    ),
  );
  const nameOf = (column: string) => (valuesOf.has(column) ? valuesTypeName(column) : undefined);
  const heldIn = (owner: string, field: string) => {
    const column = heldColumns[`${owner}.${field}`];
    if (column && !valuesOf.has(column)) throw new Error(`${column} has no list of values`);
    return column && nameOf(column);
  };
  const tables = [...new Set(columns.rows.map(({ table }) => table))].map((table) =>
    describeTable(
      table,
      columns.rows
        .filter((column) => column.table === table)
        .map((column) => ({
          ...column,
          type:
            nameOf(`${table}.${column.name}`) ?? heldIn(table, column.name) ?? typeScriptType(column.type),
        })),
      relationships.rows.filter((relationship) => relationship.table === table),
      procedures.rows.filter(({ column_of }) => column_of === table),
    ),
  );
  return `// Generated from the database by \`npm run generate-types\`; a test compares it with the migrations.

export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

${[...valuesOf].map(([column, values]) => `/** Values of \`${column}\`. */\nexport type ${valuesTypeName(column)} = ${values.join(' | ')};`).join('\n')}

export type Database = {
  public: {
    Tables: {
${tables.join('\n')}
    };
    Views: { [name in never]: never };
    Functions: {
${procedures.rows
  .filter(({ column_of }) => column_of === null)
  .map((procedure) => describeProcedure(procedure, rows, heldIn))
  .join('\n')}
    };
    Enums: { [name in never]: never };
    CompositeTypes: {
${composites.rows.map(({ name, columns: fields }) => `      ${name}: ${describeFields(name, fields, rows, heldIn)};`).join('\n')}
    };
  };
};
`;
}

function describeTable(
  table: string,
  columns: Column[],
  relationships: Relationship[],
  computed: Procedure[],
): string {
  const orNull = ({ is_nullable }: Column) => (is_nullable ? ' | null' : '');
  const row = [
    ...columns.map((column) => `${column.name}: ${column.type}${orNull(column)};`),
    ...computed.map(({ name, returns }) => `${name}: ${typeScriptType(returns)};`),
  ];
  const optional = (column: Column, isInsert: boolean) => {
    if (column.is_generated) return `${column.name}?: never;`;
    const isOptional = !isInsert || column.is_nullable || column.has_default;
    return `${column.name}${isOptional ? '?' : ''}: ${column.type}${orNull(column)};`;
  };
  const list = (names: string[]) => `[${names.map((name) => `'${name}'`).join(', ')}]`;
  const lines = [
    `      ${table}: {`,
    `        Row: { ${row.join(' ')} };`,
    `        Insert: { ${columns.map((column) => optional(column, true)).join(' ')} };`,
    `        Update: { ${columns.map((column) => optional(column, false)).join(' ')} };`,
    `        Relationships: [`,
    ...relationships.map(
      (relationship) =>
        `          { foreignKeyName: ${JSON.stringify(relationship.constraint_name)}; columns: ${list(relationship.columns)}; ` +
        `isOneToOne: ${relationship.is_one_to_one}; referencedRelation: '${relationship.referenced}'; ` +
        `referencedColumns: ${list(relationship.referenced_columns)} },`,
    ),
    `        ];`,
    `      };`,
  ];
  return lines.join('\n');
}

/** Such as `OrderPaymentStatus` for `orders.payment_status`, and `DeliveryStatus` for `deliveries.delivery_status`. */
function valuesTypeName(column: string): string {
  const [table = '', name = ''] = column.split('.');
  const one = table.replace(/ies$/, 'y').replace(/s(?=_to_|$)/, '');
  const words = name.startsWith(`${one}_`) ? name : `${one}_${name}`;
  return words
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
}

type HeldIn = (owner: string, field: string) => string | undefined;

function describeFields(
  owner: string,
  fields: Composite['columns'],
  rows: ReadonlyMap<string, string>,
  heldIn: HeldIn,
): string {
  return `{ ${fields.map(({ name, type }) => `${name}: ${heldIn(owner, name) ?? describeType(type, rows)};`).join(' ')} }`;
}

function describeType(type: string, rows: ReadonlyMap<string, string>): string {
  if (type.endsWith('[]')) return `${describeType(type.slice(0, -2), rows)}[]`;
  return rows.get(type) ?? typeScriptType(shortName(type));
}

function describeProcedure(
  { name, arguments: parameters, returns, rows_of, returned_columns, is_set }: Procedure,
  rows: ReadonlyMap<string, string>,
  heldIn: HeldIn,
): string {
  const described = parameters.map(
    ({ name: parameter, type, has_default }) =>
      `${parameter}${has_default ? '?' : ''}: ${heldIn(name, parameter) ?? typeScriptType(shortName(type))}${has_default ? ' | null' : ''};`,
  );
  const args = described.length > 0 ? `{ ${described.join(' ')} }` : 'Record<PropertyKey, never>';
  const returned = returned_columns
    ? describeFields(name, returned_columns, rows, heldIn)
    : returns === 'void'
      ? 'undefined'
      : (rows.get(returns) ?? typeScriptType(returns));
  // The client needs this to type the selection of columns and related tables.
  const options = rows_of
    ? `; SetofOptions: { from: '*'; to: '${rows_of}'; isOneToOne: ${!is_set}; isSetofReturn: ${is_set} };`
    : '';
  return `      ${name}: { Args: ${args}; Returns: ${returned}${is_set ? '[]' : ''}${options} };`;
}

const shortNames: Record<string, string> = {
  integer: 'int4',
  bigint: 'int8',
  smallint: 'int2',
  boolean: 'bool',
  'timestamp with time zone': 'timestamptz',
  'double precision': 'float8',
};
const shortName = (type: string) => shortNames[type] ?? type;

function typeScriptType(type: string): string {
  if (type.startsWith('_')) return `${typeScriptType(type.slice(1))}[]`;
  if (type.endsWith('[]')) return `${typeScriptType(shortName(type.slice(0, -2)))}[]`;
  if (['int2', 'int4', 'int8', 'float4', 'float8', 'numeric'].includes(type)) return 'number';
  if (type === 'bool') return 'boolean';
  if (type === 'json' || type === 'jsonb') return 'Json';
  return 'string';
}
