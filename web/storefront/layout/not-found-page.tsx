// The page for unknown URLs.
import { data } from 'react-router';
import { ErrorScreen } from '../../ui/error-screen.tsx';
import type { Route } from './+types/not-found-page.ts';

export const meta: Route.MetaFunction = () => [
  { title: 'Page not found' },
  { name: 'robots', content: 'noindex' },
];

export const loader = () => data(null, { status: 404 });

export default function NotFoundPage() {
  return <ErrorScreen isMissing />;
}
