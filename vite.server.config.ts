// Builds the server itself; the pages it renders are built by vite.config.ts.
import { defineConfig } from 'vite';

export default defineConfig({
  publicDir: false,
  build: {
    ssr: true,
    rolldownOptions: {
      input: [
        'server/main.ts',
        'server/backend-alone.ts',
        'server/watch-loop-thread.mjs',
        'server/backups/backup-command.ts',
        'server/backups/check-program.ts',
      ],
      // Programs are found beside the code that starts them.
      output: { chunkFileNames: '[name]-[hash].js' },
    },
    outDir: 'build/service',
    target: 'node20',
    sourcemap: true,
    emptyOutDir: true,
  },
});
