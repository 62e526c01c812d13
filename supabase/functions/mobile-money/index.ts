// Entry of the function on a hosted project (Deno). `npm run build` bundles it into function.bundle.js, which is deployed.
import { build, buildHeader } from './build.ts';
import { createMobileMoney } from './handler.ts';
import { readHostedSettings, WrongSecret } from './hosted-settings.ts';

function createAnswer(): (request: Request) => Promise<Response> {
  const { settings, storefrontOrigin } = readHostedSettings((name) => Deno.env.get(name));
  const mobileMoney = createMobileMoney({ ...settings, log: (event) => console.warn(JSON.stringify(event)) });
  // The storefront has another origin than the project. Only its pages may call.
  const headers = {
    'access-control-allow-origin': storefrontOrigin,
    'access-control-allow-headers': 'authorization, x-client-info, apikey, content-type, x-region',
    'access-control-allow-methods': 'POST',
    'access-control-max-age': '86400',
    vary: 'origin',
    [buildHeader]: build,
  };
  return async (request) => {
    if (request.method === 'OPTIONS') return new Response(null, { status: 204, headers });
    const response = await mobileMoney(request);
    for (const [name, value] of Object.entries(headers)) response.headers.set(name, value);
    return response;
  };
}

/** With invalid secrets the response names the wrong one, for `npm run hosted:check`. */
function answerOrExplain(): (request: Request) => Response | Promise<Response> {
  try {
    return createAnswer();
  } catch (error) {
    if (!(error instanceof WrongSecret)) throw error;
    console.error(error.message);
    return () =>
      Response.json({ error: 'The payment service is not set up', problem: error.message }, { status: 503 });
  }
}

Deno.serve(answerOrExplain());
