// robots.txt: allows the storefront and its images, disallows staff screens and services.
import { shopContext } from '../../lib/shop-context.ts';
import type { Route } from './+types/robots.ts';

const closed = [
  '/admin',
  '/ride/',
  '/api/',
  '/rest/',
  '/auth/',
  '/functions/',
  '/realtime/',
  '/storage/',
  '/*.data',
];
const open = ['/storage/v1/object/public/', '/storage/v1/render/image/public/'];

export function loader({ context }: Route.LoaderArgs) {
  const { config } = context.get(shopContext);
  const lines = [
    'User-agent: *',
    ...open.map((path) => `Allow: ${path}`),
    ...closed.map((path) => `Disallow: ${path}`),
    '',
    `Sitemap: ${config.publicUrl}/sitemap.xml`,
    '',
  ];
  return new Response(lines.join('\n'), { headers: { 'content-type': 'text/plain; charset=utf-8' } });
}
