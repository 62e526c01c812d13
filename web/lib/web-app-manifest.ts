// The web app manifests of the storefront and the panel: what they have in common.

export const appIcon = (side: number, purpose: 'any' | 'maskable') => ({
  src: `/icon-${side}.png`,
  sizes: `${side}x${side}`,
  type: 'image/png',
  purpose,
});

interface App {
  /** Path that identifies the app. */
  id: string;
  name: string;
  short_name: string;
  description: string;
  start_url: string;
  scope: string;
}

/** The response with an app's manifest. Without a database it has the default name and is not cached. */
export function webAppManifest(app: App & Record<string, unknown>, { isDefault }: { isDefault: boolean }) {
  const manifest = {
    lang: 'en-KE',
    dir: 'ltr',
    display: 'standalone',
    theme_color: '#201135',
    background_color: '#fdf8ef',
    icons: [
      { src: '/favicon.svg', sizes: 'any', type: 'image/svg+xml', purpose: 'any' },
      appIcon(192, 'any'),
      appIcon(512, 'any'),
      appIcon(192, 'maskable'),
      appIcon(512, 'maskable'),
    ],
    ...app,
  };
  return Response.json(manifest, {
    status: isDefault ? 503 : 200,
    headers: { 'content-type': 'application/manifest+json; charset=utf-8' },
  });
}
