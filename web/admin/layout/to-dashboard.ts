// /admin itself is no screen: it leads to the first one.
import { redirect } from 'react-router';

export const clientLoader = () => redirect('/admin/dashboard');
clientLoader.hydrate = true as const;

// Without a component the server would take it for an address that answers with data.
export default function ToDashboard() {
  return null;
}
