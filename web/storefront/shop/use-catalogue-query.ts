// The visitor's query, synchronised with the URL.
import { useEffect, useEffectEvent, useState } from 'react';
import { useLocation, useNavigation, useSearchParams } from 'react-router';
import { type CatalogueQuery, readCatalogueQuery, writeCatalogueQuery } from '../../../domain/catalogue.ts';
import { useLeaveDialog } from '../../ui/dialog-history.ts';

// Debounced: browsers limit how often a page may change its URL.
const typingPauseMs = 250;

/** Another page of the same list does not change the form. */
function withoutPage(parameters: URLSearchParams): URLSearchParams {
  const others = new URLSearchParams(parameters);
  others.delete('page');
  return others;
}

/**
 * `formKey` changes whenever a link or the Back button changed the URL: the form is then mounted again.
 * @param isSheetOpen while the filter sheet is open its history entry is the current one, and closing it returns to
 * the page's entry: the query is written to that entry
 */
export function useCatalogueQuery(isSheetOpen: boolean) {
  const [parameters, setParameters] = useSearchParams();
  const { replace: isInDialog } = useLeaveDialog();
  const url = withoutPage(parameters).toString();
  const [query, setQuery] = useState(() => readCatalogueQuery(parameters));
  const [seen, setSeen] = useState(url);
  const [formKey, setFormKey] = useState(0);
  const [written, setWritten] = useState<string | null>(null);
  const [unwritten, setUnwritten] = useState<CatalogueQuery | null>(null);
  const { pathname } = useLocation();
  const { location: next } = useNavigation();
  // What was just typed does not replace the page that a link leads to.
  const isLeaving =
    next !== undefined &&
    (next.pathname !== pathname || withoutPage(new URLSearchParams(next.search)).toString() !== written);
  const mayWrite = !isSheetOpen && !isInDialog && !isLeaving;

  if (url !== seen) {
    setSeen(url);
    setWritten(null);
    if (url !== written) {
      setQuery(readCatalogueQuery(parameters));
      setUnwritten(null);
      setFormKey(formKey + 1);
    }
  }

  const write = useEffectEvent((next: CatalogueQuery) => {
    const nextParameters = writeCatalogueQuery(next);
    setWritten(nextParameters.toString());
    setUnwritten(null);
    setParameters(nextParameters, { replace: true, preventScrollReset: true });
  });
  useEffect(() => {
    if (!unwritten || !mayWrite) return;
    const timer = setTimeout(() => write(unwritten), typingPauseMs);
    return () => clearTimeout(timer);
  }, [unwritten, mayWrite]);

  function change(next: CatalogueQuery) {
    setQuery(next);
    setUnwritten(next);
  }

  return { query, change, formKey };
}
