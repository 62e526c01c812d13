// Builds the server itself; the pages it renders are built by vite.config.ts.
import { defineConfig } from 'vite';

export default defineConfig({
  publicDir: false,
  build: {
    ssr: 'server/main.ts',
    outDir: 'build/service',
    target: 'node20',
    sourcemap: true,
    emptyOutDir: true,
  },
});
