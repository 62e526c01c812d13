// Registers at M-PESA: where it sends word of money without a prompt, and that it gives us its statement.
import { registerTillUrls } from './c2b-registration.ts';
import { registerStatement } from './statement.ts';
import type { MobileMoneyWorld } from './world.ts';

/** What became of one registration, in words for whoever asked for it. */
export interface RegistrationOutcome {
  kind: 'registered' | 'already registered' | 'refused' | 'unknown' | 'not set up';
  detail?: string;
}

/**
 * Registers the till's addresses, and the statement where the settings name its phone (MPESA_NOMINATED_NUMBER). In
 * production M-PESA takes each once; asking again is harmless.
 * @returns what became of both; throws StoreFailure
 */
export async function registerTill(
  world: MobileMoneyWorld,
): Promise<{ till: RegistrationOutcome; statement: RegistrationOutcome }> {
  const base = `${tillBaseUrl(world)}/${await world.till.secret(null)}`;
  const till = await registerTillUrls(world.daraja, {
    confirmationUrl: `${base}/confirmation`,
    validationUrl: `${base}/validation`,
  });
  if (isDone(till.kind)) await world.till.registered('till');
  const { nominatedNumber } = world.daraja.settings;
  if (!nominatedNumber) {
    return {
      till: described(till),
      statement: { kind: 'not set up', detail: 'MPESA_NOMINATED_NUMBER is not set' },
    };
  }
  const statement = await registerStatement(world.daraja, {
    nominatedNumber,
    callbackUrl: `${base}/confirmation`,
  });
  if (isDone(statement.kind)) await world.till.registered('statement');
  return { till: described(till), statement: described(statement) };
}

/** Where the till's messages come in, without the secret: beside the notices of prompts. */
function tillBaseUrl(world: MobileMoneyWorld): string {
  return world.noticeBaseUrl().replace(/\/notice$/, '/till');
}

const isDone = (kind: string): boolean => kind === 'registered' || kind === 'already registered';

type Registration = Awaited<ReturnType<typeof registerTillUrls>>;

function described(outcome: Registration): RegistrationOutcome {
  if (outcome.kind === 'refused') {
    return { kind: 'refused', detail: `${outcome.code} ${outcome.description}`.trim() };
  }
  return outcome.kind === 'unknown' ? { kind: 'unknown', detail: outcome.reason } : { kind: outcome.kind };
}
