/** @see take-turn.mjs */
export function takeTurn(lock: string, onWait: () => void): Promise<() => void>;
