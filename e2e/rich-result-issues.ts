// What search engines would say about structured data, by the rules of rich results.
import Validator, { type Issue } from '@adobe/structured-data-validator';

/**
 * @param document a block of structured data
 * @returns its errors and warnings
 */
export function richResultIssues(document: {
  '@type': string;
  [property: string]: unknown;
}): Promise<Issue[]> {
  // The validator changes what it is given.
  const { '@context': _, ...data } = structuredClone(document);
  return new Validator().validate({ jsonld: { [document['@type']]: [data] } });
}

/** @returns the texts of its errors */
export const richResultErrors = async (document: Parameters<typeof richResultIssues>[0]): Promise<string[]> =>
  (await richResultIssues(document)).flatMap(({ severity, issueMessage }) =>
    severity === 'ERROR' ? [issueMessage] : [],
  );
