// A bare PGlite on a folder: what PostgreSQL in WebAssembly costs to start with nothing around it. Says its processor seconds.
import { PGlite } from '@electric-sql/pglite';

const database = await PGlite.create(process.argv[2]);
await database.query('select 1');
const { userCPUTime, systemCPUTime } = process.resourceUsage();
console.log((userCPUTime + systemCPUTime) / 1e6);
await database.close();
