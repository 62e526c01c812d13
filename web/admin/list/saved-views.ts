// Views of a list that a member keeps under a name on this device: what is in the URL, such as search, filters and order.
import { useState } from 'react';
import { useSearchParams } from 'react-router';
import { readStored, writeStored } from '../../lib/browser/browser-storage.ts';

export interface View {
  name: string;
  /** The parameters of the URL, as text. */
  search: string;
}

/** As many as can be overlooked in a row of chips. */
const maxViews = 12;

/** What a view holds of an address: a dialog over the list does not belong to it. */
const inView = (parameters: URLSearchParams, names: readonly string[]): string =>
  new URLSearchParams(
    [...parameters].filter(([name, value]) => names.includes(name) && value !== '').toSorted(),
  ).toString();

/** Views as text for the device's storage, and back: names and addresses as the parameters of one. */
export const readViews = (stored: string | null): View[] =>
  [...new URLSearchParams(stored ?? '')].map(([name, search]) => ({ name, search }));
export const writeViews = (views: readonly View[]): string =>
  new URLSearchParams(views.map(({ name, search }) => [name, search])).toString();

/**
 * @param list such as 'orders'
 * @param names of the parameters that make up a view
 */
export function useSavedViews(list: string, names: readonly string[]) {
  const key = `jani.staff.views.${list}`;
  const [parameters, setParameters] = useSearchParams();
  const [views, setViews] = useState(() => readViews(readStored(key)));
  const current = inView(parameters, names);
  const keep = (next: readonly View[]) => {
    writeStored(key, writeViews(next));
    setViews([...next]);
  };
  return {
    views,
    /** The view that is shown, as text; '' for the whole list. */
    current,
    show: ({ search }: View) =>
      setParameters(search === current ? '' : search, { replace: true, preventScrollReset: true }),
    /** Keeps what is shown; a view of the same name is replaced. */
    save: (name: string) =>
      keep([...views.filter((view) => view.name !== name), { name, search: current }].slice(-maxViews)),
    remove: (name: string) => keep(views.filter((view) => view.name !== name)),
  };
}
export type SavedViews = ReturnType<typeof useSavedViews>;
