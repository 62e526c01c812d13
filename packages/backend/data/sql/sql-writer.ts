// Helpers for writing statements.
import type { TableName } from '../schema/schema-types.ts';

export interface Statement {
  sql: string;
  /** Their types are inferred by the server, or given by casts in the statement. */
  parameters: string[];
}

/** Collects the bound values of a statement and names its aliases. */
export class Writer {
  readonly parameters: string[] = [];
  #aliases = 0;

  /** Adds a value; returns its placeholder. */
  bind(value: string | number): string {
    return `$${this.parameters.push(String(value))}`;
  }

  /** Returns an unused alias. */
  alias(prefix: string): string {
    return `${prefix}${this.#aliases++}`;
  }
}

/** Writes a name as an identifier. It must hold no NUL. */
export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
/** Writes a qualified name; without a schema it is resolved by the search path. */
export const nameOf = ({ schema, name }: TableName) =>
  schema === '' ? quoted(name) : `${quoted(schema)}.${quoted(name)}`;
/** Joins by commas. */
export const list = (parts: readonly string[]) => parts.join(', ');
/** Writes a where clause; nothing when there are no conditions. */
export const where = (conditions: readonly string[]) =>
  conditions.length > 0 ? ` where ${conditions.join(' and ')}` : '';
