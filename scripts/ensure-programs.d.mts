/** @see ensure-programs.mjs */
export function requireBrowser(): string;
