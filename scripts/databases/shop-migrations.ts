// The folders of the platform's and the shop's migrations, in the order they apply.
import { join } from 'node:path';
import { migrationsOf } from '../../server/start/prepare-database.ts';

export const shopMigrations = migrationsOf(join(import.meta.dirname, '../..'));
