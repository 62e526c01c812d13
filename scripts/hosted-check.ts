// `npm run hosted:check`: lists what the configured hosted project lacks, and how to add it.
import { existsSync } from 'node:fs';
import { WrongSetting } from '@jani-juice/backend/settings';
import { checkHostedProject } from '../server/start/hosted/hosted-project.ts';
import { readConfig } from '../server/start/settings/config.ts';

if (existsSync('.env')) process.loadEnvFile('.env');
try {
  const { supabase, mpesa, publicUrl } = readConfig(process.env, process.cwd());
  if (!supabase) throw new WrongSetting('SUPABASE_URL is not set: there is no hosted project to check.');
  const requirements = await checkHostedProject(supabase, {
    environment: mpesa.environment,
    publicUrl,
    root: process.cwd(),
    withProbe: true,
  });
  for (const { name, problem, remedy } of requirements) {
    console.log(problem ? `✗ ${name}: ${problem}\n  ${remedy}` : `✓ ${name}`);
  }
  if (requirements.some(({ problem }) => problem)) process.exitCode = 1;
} catch (error) {
  if (!(error instanceof WrongSetting)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
