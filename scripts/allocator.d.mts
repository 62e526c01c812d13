export const allocatorSettings: Readonly<Record<string, string>>;
export function applyAllocatorSettings(): void;
