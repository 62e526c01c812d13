// The visitor's query, kept in step with the URL.
import { useEffect, useRef, useState } from 'react';
import { useSearchParams } from 'react-router';
import { type CatalogueQuery, readCatalogueQuery, writeCatalogueQuery } from '../../../domain/catalogue.ts';

// Browsers refuse URLs that change with every key.
const typingPauseMs = 250;

/** `formKey` changes whenever the URL changed from outside, by a link or the back button: the form starts again then. */
export function useCatalogueQuery() {
  const [parameters, setParameters] = useSearchParams();
  const url = parameters.toString();
  const [query, setQuery] = useState(() => readCatalogueQuery(parameters));
  const [seen, setSeen] = useState(url);
  const [formKey, setFormKey] = useState(0);
  const [written, setWritten] = useState<string | null>(null);
  const timer = useRef(0);

  if (url !== seen) {
    setSeen(url);
    setWritten(null);
    if (url !== written) {
      setQuery(readCatalogueQuery(parameters));
      setFormKey(formKey + 1);
    }
  }

  useEffect(() => () => window.clearTimeout(timer.current), []);

  function change(next: CatalogueQuery) {
    setQuery(next);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      const wanted = writeCatalogueQuery(next);
      setWritten(wanted.toString());
      setParameters(wanted, { replace: true, preventScrollReset: true });
    }, typingPauseMs);
  }

  return { query, change, formKey };
}
