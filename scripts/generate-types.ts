// `npm run generate-types`: writes supabase/types.ts from the migrations.
import { writeFile } from 'node:fs/promises';
import { throwawayDatabase } from '@jani-juice/backend/testing';
import { describeDatabase } from './databases/database-types.ts';
import { shopMigrations } from './databases/shop-migrations.ts';

const database = await throwawayDatabase('pglite', shopMigrations);
await writeFile(new URL('../supabase/types.ts', import.meta.url), await describeDatabase(database));
await database.close();
