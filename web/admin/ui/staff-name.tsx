// What colleagues call a staff member, by the email address that histories store.
import { useQuery } from '@tanstack/react-query';
import { useMember } from '../layout/roles/use-member.tsx';
import { type NameOf, nameIn, namesQuery, shorten } from './known-names.ts';

export function useNameOf(): NameOf {
  const { tables } = useMember().staff;
  return nameIn(useQuery(namesQuery(tables)).data);
}

/** As `useNameOf`, shortened where a member has no name. */
export function useShortNameOf(): NameOf {
  const nameOf = useNameOf();
  return (email) => shorten(nameOf(email));
}

/** The name with the whole address as its title, or "you". */
export function StaffName({ email }: { email: string }) {
  const own = useMember().email;
  const nameOf = useShortNameOf();
  return (
    <span title={email} className="font-semibold">
      {email === own ? 'you' : nameOf(email)}
    </span>
  );
}

/** The name in a history; another text without an address. */
export function NameInHistory({ email, otherwise }: { email: string | null; otherwise: string }) {
  const nameOf = useNameOf();
  return <span title={email ?? undefined}>{email === null ? otherwise : nameOf(email)}</span>;
}
