// What the visitor looks for, kept in step with the address.
import { useEffect, useRef, useState } from 'react';
import { useSearchParams } from 'react-router';
import { type CatalogueQuery, readCatalogueQuery } from '../../../domain/catalogue.ts';

// Browsers refuse addresses that change with every key.
const typingPause = 250;

function addressOf({ search, brand, category, sort }: CatalogueQuery): URLSearchParams {
  const parameters = new URLSearchParams();
  if (search.trim()) parameters.set('search', search.trim());
  if (brand) parameters.set('brand', brand);
  if (category) parameters.set('category', category);
  if (sort !== 'popularity') parameters.set('sort', sort);
  return parameters;
}

/** `formKey` changes whenever the address changed from outside, by a link or the back button: the form starts anew then. */
export function useCatalogueQuery() {
  const [parameters, setParameters] = useSearchParams();
  const address = parameters.toString();
  const [query, setQuery] = useState(() => readCatalogueQuery(parameters));
  const [seen, setSeen] = useState(address);
  const [formKey, setFormKey] = useState(0);
  const [written, setWritten] = useState<string | null>(null);
  const timer = useRef(0);

  if (address !== seen) {
    setSeen(address);
    setWritten(null);
    if (address !== written) {
      setQuery(readCatalogueQuery(parameters));
      setFormKey(formKey + 1);
    }
  }

  useEffect(() => () => window.clearTimeout(timer.current), []);

  function change(next: CatalogueQuery) {
    setQuery(next);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      const wanted = addressOf(next);
      setWritten(wanted.toString());
      setParameters(wanted, { replace: true, preventScrollReset: true });
    }, typingPause);
  }

  return { query, change, formKey };
}
