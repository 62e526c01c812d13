import { createContext, useContext } from 'react';
import type { LiveState } from './use-live-changes.ts';

export const LiveStateContext = createContext<LiveState>('connecting');

/** Whether changes currently arrive, for screens that show it themselves. */
export const useLiveState = (): LiveState => useContext(LiveStateContext);
