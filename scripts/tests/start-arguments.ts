// Node's arguments in `npm start`, for tests and benchmarks that start a shop the same way.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** V8's options, then the program, of the project in a folder. */
export const startArgumentsOf = (root: string): string[] =>
  JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    .scripts.start.split(' ')
    .slice(1);

export const startArguments = startArgumentsOf(join(import.meta.dirname, '../..'));
