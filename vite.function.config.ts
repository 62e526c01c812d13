// Bundles the payment function into one file without imports, the shape in which it is deployed (supabase/config.toml).
import { createHash } from 'node:crypto';
import { defineConfig, type Plugin } from 'vite';

/** Writes a hash of the bundle into the bundle (supabase/functions/mobile-money/build.ts). */
const nameBuild: Plugin = {
  name: 'name-build',
  generateBundle(_options, bundle) {
    for (const chunk of Object.values(bundle)) {
      if (chunk.type !== 'chunk') continue;
      const hash = createHash('sha256').update(chunk.code).digest('hex').slice(0, 16);
      chunk.code = chunk.code.replace('build 0000000000000000', `build ${hash}`);
    }
  },
};

export default defineConfig({
  plugins: [nameBuild],
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
