import { createContext } from 'react';

/**
 * @param close closes the dialog later
 * @returns false if the dialog must stay open
 */
export type CloseGuard = (close: () => void) => boolean;

/**
 * What a dialog consults before it closes, unless the URL contains it. Its content sets `current`.
 */
export const CloseGuardOfDialog = createContext<{ current: CloseGuard | null }>({ current: null });
