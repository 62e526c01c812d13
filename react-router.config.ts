import type { Config } from '@react-router/dev/config';

export default {
  appDirectory: 'web',
  // Each build is a release of its own (scripts/releases/releases.mjs).
  buildDirectory: process.env.RELEASE_FOLDER ?? 'build',
  ssr: true,
  routeDiscovery: { mode: 'initial' },
  future: {
    v8_middleware: true,
    v8_passThroughRequests: true,
    v8_splitRouteModules: false,
    v8_trailingSlashAwareDataRequests: true,
    v8_viteEnvironmentApi: true,
  },
} satisfies Config;
