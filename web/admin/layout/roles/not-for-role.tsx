// What a member sees instead of a page that the role does not have.
import { Link, Navigate, useLocation } from 'react-router';
import { labelOfRole } from '../../../../domain/people/staff-role-labels.ts';
import { buttonStyle } from '../../../ui/button.tsx';
import { placeForRole } from './place-for-role.ts';
import { homeOf } from './screen-areas.ts';
import { useMember } from './use-member.tsx';

export function NotForRole() {
  const { role } = useMember();
  const { pathname } = useLocation();
  const home = homeOf(role);
  const place = placeForRole(role, pathname);
  if (place !== pathname) return <Navigate to={place} replace />;
  return (
    <div className="grid justify-items-start gap-4">
      <h1 className="text-2xl">This page is not part of your role</h1>
      <p className="max-w-text">
        Your account has the role {labelOfRole(role)}. An owner of the shop can change that under Settings,
        Team.
      </p>
      <Link to={home} className={buttonStyle('dusk')}>
        {home === '/admin/today' ? 'Open Today' : 'Open the dashboard'}
      </Link>
    </div>
  );
}
