// Notices above every staff screen.
import { Link, useLocation } from 'react-router';
import { Notice } from '../../ui/notice.tsx';
import { usePaymentHealth } from '../payments-check/payment-health.ts';
import { describeNotices } from './describe-notices.ts';

export function StaffNotices() {
  const { pathname } = useLocation();
  const notices = describeNotices(usePaymentHealth().data ?? null).filter(
    ({ to }) => pathname !== to && !pathname.startsWith(`${to}/`),
  );
  if (notices.length === 0) return null;
  return (
    <section aria-label="Notices" className="mb-6 grid gap-3">
      {notices.map(({ key, tone, title, text, to, link }) => (
        <Notice key={key} tone={tone} title={title}>
          {text}{' '}
          <Link to={to} className="tap font-semibold underline">
            {link}
          </Link>
        </Notice>
      ))}
    </section>
  );
}
