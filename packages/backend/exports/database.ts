// The database and its migrations.
export {
  type Database,
  DatabaseError,
  isUnavailable,
  OtherVersion,
  type Session,
  settingsParameters,
  settingsStatement,
} from '../database/database.ts';
export {
  type AppliedMigration,
  lockMigrations,
  MigrationChanged,
  type MigrationSource,
  migrate,
  migrateLike,
  readMigrations,
  refuseNewer,
  repeatAfterCollisions,
  worksWithNewer,
} from '../database/migrate.ts';
export { receivesNotifications } from '../database/postgresql/receives-notifications.ts';
