// Closes a dialog that is open while the URL contains it.
import { useCallback } from 'react';
import { useLocation } from 'react-router';
import { leavePageEntry } from '../../ui/dialog/dialog-history.ts';

/** State of a navigation from a page to its dialog. */
export const fromThisPage = { isFromList: true };

/**
 * @param replace navigates to the URL without the dialog
 * @returns closes the dialog: by going back if it was opened from this page (`fromThisPage`), so that the page has
 * one entry, else by `replace`
 */
export function useDialogUrlClose(replace: () => void): () => void {
  const isFromList = (useLocation().state as Partial<typeof fromThisPage> | null)?.isFromList === true;
  return useCallback(() => (isFromList ? leavePageEntry() : replace()), [isFromList, replace]);
}
