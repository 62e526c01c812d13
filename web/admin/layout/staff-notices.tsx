// Notices above every staff screen.
import { Link, useLocation } from 'react-router';
import { Notice } from '../../ui/notice.tsx';
import { usePaymentHealth } from '../payments-check/payment-health.ts';
import { describeNotices } from './describe-notices.ts';

export function StaffNotices() {
  const { pathname } = useLocation();
  const isShownBy = (screen: string) => pathname === screen || pathname.startsWith(`${screen}/`);
  const notices = describeNotices(usePaymentHealth().data ?? null).filter(
    // Today shows refunds to approve itself.
    ({ key, to }) => !isShownBy(to) && !(key === 'refunds' && isShownBy('/admin/today')),
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
