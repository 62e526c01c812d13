// Starts the slowest test files first, so that none of them runs alone at the end.
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Creates a sequencer for Vitest.
 * @param slow the files that take longest, the slowest first, by how their paths end; the others follow as Vitest likes
 */
export function slowestFirst(slow: readonly string[]): typeof BaseSequencer {
  const placeOf = ({ moduleId }: TestSpecification) => {
    const place = slow.findIndex((end) => moduleId.endsWith(`/${end}`));
    return place === -1 ? slow.length : place;
  };
  return class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const sorted = await super.sort(files);
      return sorted.sort((one, other) => placeOf(one) - placeOf(other));
    }
  };
}
