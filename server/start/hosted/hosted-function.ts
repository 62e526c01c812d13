// Checks the payment function that a hosted project runs.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Setup } from '../../../domain/mpesa/payment-setup.ts';
import { buildHeader } from '../../../supabase/functions/mobile-money/build.ts';
import { keyHeaders } from '../../../supabase/store.ts';
import type { Config } from '../settings/config.ts';
import type { Finding } from './hosted-services.ts';

const timeoutMs = 10_000;
const deploy = 'npm run build, then npx supabase functions deploy mobile-money';

interface FunctionExpectations {
  /** The local MPESA_ENV. */
  environment: Config['mpesa']['environment'];
  /** The local PUBLIC_URL. */
  publicUrl: string;
  /** The project's folder, with the bundled function. Null: the build is not compared. */
  root: string | null;
}

/** Checks that the function is deployed in this version, set up like the shop, and reachable by M-PESA. */
export async function checkFunction(
  { url, secretKey }: Pick<NonNullable<Config['supabase']>, 'url' | 'secretKey'>,
  { environment, publicUrl, root }: FunctionExpectations,
): Promise<Finding | null> {
  const address = `${url}/functions/v1/mobile-money`;
  const post = (path: string, headers: Record<string, string>, body: string) =>
    fetch(address + path, { method: 'POST', headers, body, signal: AbortSignal.timeout(timeoutMs) });
  const headers = { ...keyHeaders(secretKey), 'content-type': 'application/json' };
  try {
    const response = await post('', headers, JSON.stringify({ action: 'describe-setup' }));
    const { setup, problem } = ((await response.json().catch(() => null)) ?? {}) as {
      setup?: Setup;
      problem?: string;
    };
    if (response.status === 404) return { problem: 'it is not deployed', remedy: deploy };
    if (problem) return { problem, remedy: 'npx supabase secrets set NAME=value' };
    if (response.status === 401 || response.status === 403) {
      return {
        problem: 'it does not accept SUPABASE_SECRET_KEY',
        remedy:
          'npx supabase secrets set SHOP_SECRET_KEY=… with the same key, or use a secret key of this project',
      };
    }
    if (!setup) {
      return { problem: `it answers with status ${response.status}`, remedy: 'see its log in the project' };
    }
    if (setup.environment !== environment) {
      return {
        problem: `its MPESA_ENV is ${setup.environment}, here it is ${environment}`,
        remedy: 'set both to the same',
      };
    }
    // M-PESA sends no keys. The platform itself answers 401 where it wants a token; the function answers unknown codes otherwise.
    if ((await post('/reach/check', {}, '')).status === 401) {
      return { problem: 'calls without a token are refused, and M-PESA sends none', remedy: deploy };
    }
    // The built-in services run the function from its sources, for all origins that they allow.
    if (environment === 'simulator') return null;
    const acceptedOrigin = response.headers.get('access-control-allow-origin');
    if (acceptedOrigin !== new URL(publicUrl).origin) {
      return {
        problem: `it answers pages of ${acceptedOrigin}, not of ${publicUrl}, so browsers refuse its answers`,
        remedy: `npx supabase secrets set PUBLIC_URL=${publicUrl}`,
      };
    }
    if (root !== null && response.headers.get(buildHeader) !== (await readFunctionBuild(root))) {
      return { problem: 'the deployed function is not the one of this version of the shop', remedy: deploy };
    }
    const fatal = setup.callbackUrlProblems.find(({ isFatal }) => isFatal);
    return fatal ? { problem: fatal.sentence, remedy: 'M-PESA must reach the project by https' } : null;
  } catch (error) {
    return {
      problem: `it does not answer (${(error as Error).message})`,
      remedy: 'see its log in the project',
    };
  }
}

/** The build in the bundle that `npm run build` made; null without a bundle. */
async function readFunctionBuild(root: string): Promise<string | null> {
  const bundle = join(root, 'supabase/functions/mobile-money/function.bundle.js');
  const text = await readFile(bundle, 'utf8').catch(() => '');
  return /"build ([0-9a-f]{16})"/.exec(text)?.[1] ?? null;
}
