// The schema cache: relations, columns, keys, relationships and functions.

/** Casts of a domain that format and parse its values; functions, null without one. */
export interface Representation {
  toJson: TableName | null;
  fromJson: TableName | null;
  fromText: TableName | null;
}

export interface Column {
  name: string;
  /** The type as SQL text, from the catalogue. */
  type: string;
  /** Kinds of types whose operators differ. */
  kind: 'json' | 'tsvector' | 'other';
  /** Default of the column as SQL text from the catalogue. */
  defaultExpression: string | null;
  /** Set for a domain with its own casts. */
  representation: Representation | null;
}

/** A function of one row, read like a column. */
export interface ComputedColumn {
  schema: string;
  name: string;
  kind: Column['kind'];
}

export interface TableName {
  schema: string;
  name: string;
}

type ColumnPair = readonly [origin: string, foreign: string];

/** A relationship from the rows of one relation to rows of another. */
export interface Relationship {
  cardinality: 'many-to-one' | 'one-to-many' | 'one-to-one' | 'many-to-many';
  origin: TableName;
  foreign: TableName;
  /** The constraint's name; for many-to-many the junction's first; for a computed one the function's. */
  name: string;
  /** Origin and foreign columns that are equal; empty for many-to-many and computed ones. */
  columns: readonly ColumnPair[];
  isForeignView: boolean;
  /** Whether the foreign key is the origin's. */
  holdsKey: boolean;
  junction: {
    table: TableName;
    constraints: readonly [string, string];
    /** Origin column and the junction's column for it. */
    originColumns: readonly ColumnPair[];
    /** Junction's column and the foreign column for it. */
    foreignColumns: readonly ColumnPair[];
  } | null;
  /** A function from a row of the origin to rows of the foreign relation. */
  computedBy: TableName | null;
}

/** The database's handler of a media type, for rows or a function's value. */
export interface MediaHandler {
  /** In lower case, such as `text/html`, or any. */
  mediaType: string;
  isBinary: boolean;
  /** The aggregate that produces it from rows; null for a function that returns it. */
  aggregate: TableName | null;
  /** The relation whose rows the aggregate accepts; null for any. */
  rowsOf: TableName | null;
}

export interface Relation extends TableName {
  isView: boolean;
  isInsertable: boolean;
  isUpdatable: boolean;
  isDeletable: boolean;
  columns: ReadonlyMap<string, Column>;
  primaryKey: readonly string[];
  computedColumns: ReadonlyMap<string, ComputedColumn>;
  relationships: readonly Relationship[];
  /** Handlers of this relation's rows, by media type. */
  mediaHandlers: ReadonlyMap<string, MediaHandler>;
}

export interface Parameter {
  /** '' when unnamed. */
  name: string;
  type: string;
  hasDefault: boolean;
  isVariadic: boolean;
}

export interface DatabaseFunction {
  schema: string;
  name: string;
  parameters: readonly Parameter[];
  isVolatile: boolean;
  isSet: boolean;
  /** Settings the function runs with, by name. */
  settings: ReadonlyMap<string, string>;
  returns:
    | { kind: 'void' }
    /** `isRecord`: rows without declared columns. */
    | {
        kind: 'scalar';
        isRecord: boolean;
        /** For a result whose type is a domain named like a media type. */
        handler: MediaHandler | null;
      }
    /** `relation` is the table or view whose rows are returned, if it is exposed; `isNamedType`: no OUT parameters. */
    | {
        kind: 'composite';
        columns: ReadonlyMap<string, Column>;
        relation: Relation | null;
        isNamedType: boolean;
      };
}

export interface SchemaCache {
  /** By schema, then by name. Exposed schemas only. */
  relations: ReadonlyMap<string, ReadonlyMap<string, Relation>>;
  /** By schema, then by name: the overloads. */
  functions: ReadonlyMap<string, ReadonlyMap<string, readonly DatabaseFunction[]>>;
  /** Types for casts: their names in requests, and their SQL text. */
  types: ReadonlyMap<string, string>;
  /** Handlers of any rows, by media type. */
  mediaHandlers: ReadonlyMap<string, MediaHandler>;
  /** PostGIS's function that converts a row to GeoJSON; null without one. */
  geoJsonOf: TableName | null;
  /** Settings that roles have been given, by role, then by name. */
  roleSettings: ReadonlyMap<string, ReadonlyMap<string, string>>;
}
