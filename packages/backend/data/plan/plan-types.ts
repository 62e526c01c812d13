// A plan: a request's names resolved by the schema cache.
import type { MediaType } from '../parse/media-type.ts';
import type { Aggregate, JsonStep, Operation } from '../parse/query-tree.ts';
import type {
  Column,
  ComputedColumn,
  DatabaseFunction,
  Parameter,
  Relation,
  Relationship,
} from '../schema/schema-types.ts';

/** A column of a read node's rows, found in the schema cache. */
export interface PlannedField {
  column: Column | null;
  computed: ComputedColumn | null;
  path: readonly JsonStep[];
}

export type PlannedItem =
  | { kind: 'star' }
  | { kind: 'field'; field: PlannedField; cast: string | null; outputName: string }
  /** `field` null counts rows; `cast` applies to the argument, `aggregateCast` to the result. */
  | {
      kind: 'aggregate';
      aggregate: Aggregate;
      field: PlannedField | null;
      cast: string | null;
      aggregateCast: string | null;
      outputName: string;
    }
  | { kind: 'embed'; embed: PlannedEmbed };

export type PlannedCondition =
  | { kind: 'filter'; field: PlannedField; isNegated: boolean; operation: Operation }
  | { kind: 'embed is null'; embed: PlannedEmbed; isNegated: boolean }
  | {
      kind: 'group';
      joiner: 'and' | 'or';
      isNegated: boolean;
      conditions: readonly PlannedCondition[];
    };

export interface PlannedOrder {
  /** The to-one embed whose field orders, or null. */
  embed: PlannedEmbed | null;
  field: PlannedField;
  direction: 'asc' | 'desc' | null;
  nulls: 'first' | 'last' | null;
}

/** Rows of one relation with their embedded resources. */
export interface ReadNode {
  /** Name of the relation for messages. */
  name: string;
  /** Name of the rows in messages about their columns. */
  label: string;
  /** The relation, when the rows are of an exposed one; relationships start here. */
  relation: Relation | null;
  columns: ReadonlyMap<string, Column>;
  items: readonly PlannedItem[];
  embeds: readonly PlannedEmbed[];
  conditions: readonly PlannedCondition[];
  orders: readonly PlannedOrder[];
  limit: number | null;
  offset: number;
}

export interface PlannedEmbed {
  node: ReadNode;
  relationship: Relationship;
  isToOne: boolean;
  isInner: boolean;
  isSpread: boolean;
  outputName: string;
}

type Count = 'exact' | 'planned' | 'estimated';

interface PlanBase {
  media: MediaType;
  isReadOnly: boolean;
}

interface RowsPlanBase extends PlanBase {
  /** Maximum bytes of the answer's body. */
  maxAnswerBytes: number;
}

export interface ReadPlan extends RowsPlanBase {
  kind: 'read';
  relation: Relation;
  node: ReadNode;
  count: Count | null;
  /** Number of rows up to which an estimated count is exact. */
  exactCountUpTo: number;
  hasBody: boolean;
}

export interface ConflictTarget {
  columns: readonly Column[];
  resolution: 'merge-duplicates' | 'ignore-duplicates';
}

export type Mutation =
  | {
      kind: 'insert';
      columns: readonly Column[];
      conflict: ConflictTarget | null;
      /** PUT: the row must also satisfy these. */
      conditions: readonly PlannedCondition[];
    }
  | { kind: 'update'; columns: readonly Column[]; conditions: readonly PlannedCondition[] }
  | { kind: 'delete'; conditions: readonly PlannedCondition[] };

export interface MutationPlan extends RowsPlanBase {
  kind: 'mutation';
  relation: Relation;
  mutation: Mutation;
  isPut: boolean;
  /** JSON: an array of rows or a single one, and their number; null for delete. */
  rows: { text: string; isArray: boolean; count: number; takesDefaults: boolean } | null;
  returning: 'minimal' | 'headers-only' | 'representation';
  node: ReadNode;
  isCounted: boolean;
  maxAffected: number | null;
}

export type CallArguments =
  /** One JSON object whose keys are the parameters given. */
  | { kind: 'json'; text: string; parameters: readonly Parameter[] }
  /** Values in text form; several for a variadic parameter. */
  | { kind: 'text'; values: readonly (readonly [Parameter, readonly string[]])[] }
  /** The whole body. */
  | { kind: 'whole'; text: string; parameter: Parameter };

export interface CallPlan extends RowsPlanBase {
  kind: 'call';
  called: DatabaseFunction;
  callArguments: CallArguments;
  node: ReadNode;
  isCounted: boolean;
  hasBody: boolean;
  maxAffected: number | null;
}

export interface OptionsPlan {
  kind: 'options';
  allow: string;
}

/** The service describes itself: the OpenAPI document of one schema. */
export interface DescriptionPlan extends PlanBase {
  kind: 'description';
  schema: string;
  /** Whether only objects that the role may use are described. */
  followsPrivileges: boolean;
  hasBody: boolean;
}

export type Plan = ReadPlan | MutationPlan | CallPlan | OptionsPlan | DescriptionPlan;

/** Limits of every plan. */
export interface PlanLimits {
  /** Maximum rows of a read or call, and maximum rows embedded in any one row. */
  maxRows: number;
  /** Maximum bytes of an answer's body. */
  maxAnswerBytes: number;
  /** Whether a level may select a column, or embed by a relationship, several times. */
  allowsRepeats: boolean;
  /** Maximum nesting of embeds. */
  maxEmbedDepth: number;
  /** Whether many rows may be embedded, at any depth, in rows of the same relation: they multiply with each level. */
  allowsCircles: boolean;
  /** Whether aggregate functions are allowed. */
  allowsAggregates: boolean;
  /** Whether execution plans are allowed. */
  allowsPlan: boolean;
  /** Content of the description at the root. */
  openApiMode: 'follow-privileges' | 'ignore-privileges' | 'disabled';
}
