/** @see ensure-programs.mjs */
export function requireBrowser(): string;
export function findPostgresqlPrograms(...names: string[]): string | null;
