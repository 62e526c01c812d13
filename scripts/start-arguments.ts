// Node's arguments in `npm start`, for tests and benchmarks that start a shop the same way.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const { scripts } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'));

/** V8's options, then the program. */
export const startArguments: string[] = scripts.start.split(' ').slice(1);
