// The folders of the platform's and the shop's migrations, in the order they apply.
import { fileURLToPath } from 'node:url';
import type { MigrationSource } from '@jani-juice/backend/database';

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export const shopMigrations: MigrationSource[] = [
  { name: 'platform', folder: at('../packages/backend/platform') },
  { name: 'shop', folder: at('../supabase/migrations') },
];
