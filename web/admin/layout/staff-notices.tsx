// Notices above every staff screen.
import { Link, useLocation } from 'react-router';
import { Notice } from '../../ui/notice.tsx';
import { usePaymentHealth } from '../payments-check/payment-health.ts';
import { usePart } from '../ui/use-part.ts';

// The advice on all codes of M-PESA is loaded when there is something to say.
const loadTexts = () => import('./describe-notices.ts');

export function StaffNotices() {
  const { pathname } = useLocation();
  const health = usePaymentHealth().data ?? null;
  const texts = usePart(loadTexts, health?.pause != null);
  const isShownBy = (screen: string) => pathname === screen || pathname.startsWith(`${screen}/`);
  const notices = texts?.describeNotices(health).filter(({ to }) => !isShownBy(to)) ?? [];
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
