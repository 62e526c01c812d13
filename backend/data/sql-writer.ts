// The few means every statement is written with.
import type { TableName } from './schema-cache.ts';

export interface Statement {
  sql: string;
  /** Their types are inferred by the server, or given by casts in the statement. */
  parameters: string[];
}

/** Collects the bound values of a statement and names its aliases. */
export class Writer {
  readonly parameters: string[] = [];
  #aliases = 0;

  bind(value: string | number): string {
    return `$${this.parameters.push(String(value))}`;
  }

  alias(prefix: string): string {
    return `${prefix}${this.#aliases++}`;
  }
}

export const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
export const nameOf = ({ schema, name }: TableName) => `${quoted(schema)}.${quoted(name)}`;
export const list = (parts: readonly string[]) => parts.join(', ');
export const where = (conditions: readonly string[]) =>
  conditions.length > 0 ? ` where ${conditions.join(' and ')}` : '';
