// /admin redirects to the dashboard.
import { redirect } from 'react-router';

export const clientLoader = () => redirect('/admin/dashboard');
clientLoader.hydrate = true as const;

// Without a component React Router would treat the route as a resource route.
export default function ToDashboard() {
  return null;
}
