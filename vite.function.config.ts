// Bundles the payment function into one file without imports, the shape in which it is deployed (supabase/config.toml).
import { defineConfig } from 'vite';

export default defineConfig({
  publicDir: false,
  build: {
    ssr: true,
    outDir: 'supabase/functions/mobile-money',
    emptyOutDir: false,
    target: 'es2023',
    minify: false,
    rolldownOptions: {
      input: 'supabase/functions/mobile-money/index.ts',
      output: { entryFileNames: 'function.bundle.js', format: 'es', codeSplitting: false },
    },
  },
  ssr: { noExternal: true, external: ['node:crypto'], target: 'webworker' },
});
