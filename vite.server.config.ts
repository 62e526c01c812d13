// Builds the server itself; the pages it renders are built by vite.config.ts.
import { defineConfig } from 'vite';

export default defineConfig({
  publicDir: false,
  build: {
    ssr: true,
    rolldownOptions: {
      input: {
        main: 'server/main.ts',
        'backend-alone': 'server/backend-alone.ts',
        'watch-loop-thread': 'server/monitoring/watch-loop-thread.mjs',
        'image-worker': 'packages/backend/storage/images/image-worker.ts',
        'backup-command': 'server/backups/backup-command.ts',
        'backup-program': 'server/backups/backup-program.ts',
        'check-version': 'server/check-version.ts',
        simulator: 'packages/daraja-simulator/main.ts',
      },
      // Programs are found beside the code that starts them.
      output: { chunkFileNames: '[name]-[hash].js' },
    },
    outDir: `${process.env.RELEASE_FOLDER ?? 'build'}/service`,
    target: 'node20',
    sourcemap: true,
    emptyOutDir: true,
  },
});
