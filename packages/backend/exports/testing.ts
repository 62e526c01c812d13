// Databases for tests, and statements in a role.
export { asRole, type Claims } from '../database/as-role.ts';
export { type OpenAuthService, openAuthService } from '../testing/open-auth-service.ts';
export { runProgram } from '../testing/run-program.ts';
export {
  copyMigratedDatabase,
  platform,
  prepareTemplate,
  sharedBuffers,
  testDatabases,
  throwawayDatabase,
} from '../testing/throwaway.ts';
