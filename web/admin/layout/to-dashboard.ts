// /admin itself is no screen: it leads to the first one.
import { redirect } from 'react-router';

export const clientLoader = () => redirect('/admin/dashboard');
