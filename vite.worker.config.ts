// Builds the service worker, one file beside the pages' own: its address is its scope and never changes.
import { defineConfig } from 'vite';
import { buildTarget } from './domain/browser-floor.ts';

export default defineConfig({
  publicDir: false,
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    outDir: `${process.env.RELEASE_FOLDER ?? 'build'}/client`,
    emptyOutDir: false,
    target: buildTarget,
    modulePreload: false,
    rolldownOptions: {
      input: 'web/service-worker/service-worker.ts',
      output: { entryFileNames: 'sw.js', format: 'iife' },
    },
  },
});
