import { useLocation } from 'react-router';

/** Whether the screen is Today in counter mode: the queue without the panel around it. */
export function useIsCounter(): boolean {
  const { pathname, search } = useLocation();
  return /^\/admin\/today(?:\/|$)/.test(pathname) && new URLSearchParams(search).get('view') === 'counter';
}
