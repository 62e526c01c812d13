// The visitor's query, synchronised with the URL.
import { useEffect, useEffectEvent, useState } from 'react';
import { useLocation, useNavigation, useSearchParams } from 'react-router';
import {
  type CatalogueQuery,
  readCatalogueQuery,
  writeCatalogueQuery,
} from '../../../domain/products/catalogue.ts';
import { useLeaveDialog } from '../../ui/dialog/dialog-history.ts';

// Debounced: browsers limit how often a page may change its URL.
const typingPauseMs = 250;

/** The query of a URL as the form writes it: without the page, and without unknown parameters. */
const canonical = (query: CatalogueQuery) => writeCatalogueQuery(query).toString();

/**
 * `formKey` changes whenever a link or the Back button changed the URL: the form is then mounted again.
 * @param isSheetOpen while the filter sheet is open its history entry is the current one, and closing it returns to
 * the page's entry: the query is written to that entry
 */
export function useCatalogueQuery(isSheetOpen: boolean) {
  const [parameters, setParameters] = useSearchParams();
  const { replace: isInDialog } = useLeaveDialog();
  const url = canonical(readCatalogueQuery(parameters));
  const [query, setQuery] = useState(() => readCatalogueQuery(parameters));
  const [seen, setSeen] = useState(url);
  const [formKey, setFormKey] = useState(0);
  const [written, setWritten] = useState<string | null>(null);
  const { pathname } = useLocation();
  const { location: next } = useNavigation();
  // What was just typed does not replace the page that a link leads to.
  const isLeaving =
    next !== undefined &&
    (next.pathname !== pathname ||
      canonical(readCatalogueQuery(new URLSearchParams(next.search))) !== written);
  const isWritten = canonical(query) === url;
  const mayWrite = !isSheetOpen && !isInDialog && !isLeaving;

  if (url !== seen) {
    setSeen(url);
    setWritten(null);
    if (url !== written) {
      setQuery(readCatalogueQuery(parameters));
      setFormKey(formKey + 1);
    }
  }

  const write = useEffectEvent((next: CatalogueQuery) => {
    setWritten(canonical(next));
    setParameters(writeCatalogueQuery(next), { replace: true, preventScrollReset: true });
  });
  // Compared with the URL, and not written once for each change: another navigation may prevent a write.
  useEffect(() => {
    if (isWritten || !mayWrite) return;
    const timer = setTimeout(() => write(query), typingPauseMs);
    return () => clearTimeout(timer);
  }, [query, isWritten, mayWrite]);

  return { query, change: setQuery, formKey };
}
