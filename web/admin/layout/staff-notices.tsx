// Notices above every staff screen.
import { useQuery } from '@tanstack/react-query';
import { Link, useLocation } from 'react-router';
import { Notice } from '../../ui/notice.tsx';
import { usePaymentHealth } from '../payments-check/payment-health.ts';
import { namesQuery } from '../ui/known-names.ts';
import { usePart } from '../ui/use-part.ts';
import { mayOpen } from './roles/screen-areas.ts';
import { useMember } from './roles/use-member.tsx';

// The advice on all codes of M-PESA is loaded when there is something to say.
const loadTexts = () => import('./describe-notices.ts');

export function StaffNotices() {
  const { pathname } = useLocation();
  const health = usePaymentHealth().data ?? null;
  const texts = usePart(loadTexts, health?.pause != null);
  const isShownBy = (screen: string) => pathname === screen || pathname.startsWith(`${screen}/`);
  const notices = texts?.describeNotices(health).filter(({ to }) => !isShownBy(to)) ?? [];
  const { role, staff } = useMember();
  // Read once for all screens, after the first.
  useQuery(namesQuery(staff.tables));
  if (notices.length === 0) return null;
  return (
    <section aria-label="Notices" className="mb-6 grid gap-3">
      {notices.map(({ key, tone, title, text, to, link }) => (
        <Notice key={key} tone={tone} title={title}>
          {text}{' '}
          {mayOpen(role, to) ? (
            <Link to={to} className="tap font-semibold underline">
              {link}
            </Link>
          ) : (
            'Please tell an owner.'
          )}
        </Notice>
      ))}
    </section>
  );
}
