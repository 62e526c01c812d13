// The services of the Supabase client protocol.
export type { Mail, TextMessage } from '../auth/codes/messages.ts';
export { createAuthService, readableAuthPaths } from '../auth/service.ts';
export { type Backend, type BackendOptions, createBackend } from '../backend.ts';
