// The name of a staff member.
import { useMember } from '../layout/use-member.tsx';

/** The shop stores no names of staff: the part of the email address before the @ is the shortest that tells them apart. */
export const nameOfStaff = (email: string): string => email.split('@')[0] || email;

/** The name with the whole address as its title, or "you". */
export function StaffName({ email }: { email: string }) {
  const own = useMember().email;
  return (
    <span title={email} className="font-semibold">
      {email === own ? 'you' : nameOfStaff(email)}
    </span>
  );
}
