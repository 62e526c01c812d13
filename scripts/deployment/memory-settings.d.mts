export const memoryEnvironment: Readonly<Record<string, string>>;
export function applyMemorySettings(): void;
