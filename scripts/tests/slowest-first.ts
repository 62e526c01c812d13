// Starts the slowest test files first, so that none of them runs alone at the end.
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Creates a sequencer for Vitest.
 * @param slow ends of the paths of the slowest files, the slowest first; the others follow in Vitest's order
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
