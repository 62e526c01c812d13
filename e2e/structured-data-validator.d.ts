// The package has no types.
declare module '@adobe/structured-data-validator' {
  export interface Issue {
    issueMessage: string;
    severity: 'ERROR' | 'WARNING';
    path: { type?: string; property?: string; index?: number }[];
  }
  /** Checks the rules of Google's rich results. */
  export default class Validator {
    /** @param found documents by format and type, as a crawler extracts them; it deletes `@location` of each */
    validate(found: { jsonld: Record<string, object[]> }): Promise<Issue[]>;
  }
}
