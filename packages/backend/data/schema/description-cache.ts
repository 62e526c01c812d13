// Cache of schema descriptions per role: creating one takes longer than hundreds of plain reads.
import type { SchemaCache } from './schema-types.ts';
import type { DescribedSchema } from './sql-description.ts';

interface Entry {
  described: DescribedSchema;
  /** The document, for the URL of its last request. */
  document: { root: string; text: string } | null;
}

/** Roles and schemas whose descriptions are cached. */
const maxEntries = 20;

/** Descriptions of one schema cache. */
export class DescriptionCache {
  #schema: SchemaCache | null = null;
  #entries = new Map<string, Entry>();

  /** Whether the description for a role is cached. */
  has(role: string, schemaName: string, schema: SchemaCache): boolean {
    return schema === this.#schema && this.#entries.has(keyOf(role, schemaName));
  }

  /**
   * Returns the document for a role. Calls `read` and `write` only for the parts that are not cached.
   * @param root URL of the service, which the document names
   */
  async document(
    { role, schemaName, schema, root }: { role: string; schemaName: string; schema: SchemaCache; root: URL },
    read: () => Promise<DescribedSchema>,
    write: (described: DescribedSchema) => string,
  ): Promise<string> {
    const key = keyOf(role, schemaName);
    const cached = schema === this.#schema ? this.#entries.get(key) : undefined;
    if (cached?.document?.root === root.href) return cached.document.text;
    const described = cached?.described ?? (await read());
    const text = write(described);
    if (schema !== this.#schema) {
      this.#entries = new Map();
      this.#schema = schema;
    }
    if (this.#entries.size >= maxEntries) this.#entries.clear();
    this.#entries.set(key, { described, document: { root: root.href, text } });
    return text;
  }
}

const keyOf = (role: string, schemaName: string) => JSON.stringify([role, schemaName]);
