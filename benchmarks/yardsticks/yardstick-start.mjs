// Yardstick: a bare PGlite on a folder. Prints the processor seconds of its start.
import { PGlite } from '@electric-sql/pglite';

const database = await PGlite.create(process.argv[2]);
await database.query('select 1');
const { userCPUTime, systemCPUTime } = process.resourceUsage();
console.log((userCPUTime + systemCPUTime) / 1e6);
await database.close();
