// Names of colleagues outside of components.
import type { Staff } from '../../lib/staff.ts';
import { queryClient } from '../data/query-client.ts';
import { dataOf } from '../data/table-answer.ts';

type Names = Readonly<Record<string, string>>;
const queryKey = ['staff-names'];

export const namesQuery = (tables: Staff['tables']) => ({
  queryKey,
  queryFn: async (): Promise<Names> =>
    Object.fromEntries(dataOf(await tables.rpc('staff_names')).map(({ email, name }) => [email, name])),
  // Owners change names rarely; the panel reads them again with every connection.
  staleTime: Number.POSITIVE_INFINITY,
});

/** The name of a member by the email address. Without one, and for the shop's own words such as "The shop", the text as it is. */
export type NameOf = (email: string) => string;

export const nameIn =
  (names: Names | undefined): NameOf =>
  (email) =>
    (names && Object.hasOwn(names, email) && names[email]) || email;

/** As far as a screen has read the names. */
export const knownNameOf: NameOf = (email) => nameIn(queryClient.getQueryData<Names>(queryKey))(email);

/** The part of an email address that tells members apart; a name as it is. */
export const shorten = (name: string): string => name.split('@')[0] || name;
