// /admin redirects to the dashboard, or to Today for a role without it.
import { redirect } from 'react-router';
import type { Route } from './+types/to-dashboard.ts';
import { memberContext } from './roles/member.ts';
import { homeOf } from './roles/screen-areas.ts';

export const clientLoader = ({ context }: Route.ClientLoaderArgs) =>
  redirect(homeOf(context.get(memberContext).role));
clientLoader.hydrate = true as const;

// Without a component React Router would treat the route as a resource route.
export default function ToDashboard() {
  return null;
}
