// Registers the shortcode at M-PESA for payments without a prompt (C2B) and for statements.

import { callbackUrlFor } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import { registerTillUrls } from '../daraja/c2b-registration.ts';
import { registerStatement } from '../daraja/statement.ts';

/** The outcome of one registration. */
export interface RegistrationOutcome {
  kind: 'registered' | 'already registered' | 'refused' | 'unknown' | 'not set up';
  detail?: string;
}

/**
 * Registers the till's callback URLs, and the statement if MPESA_NOMINATED_NUMBER is set. Production accepts each once;
 * the call can be repeated.
 * @returns both outcomes
 * @throws DatabaseUnavailable
 */
export async function registerTill(
  context: MobileMoneyContext,
): Promise<{ till: RegistrationOutcome; statement: RegistrationOutcome }> {
  const base = `${callbackUrlFor(context.callbackBaseUrl(), 'till')}/${await context.till.readSecret(null)}`;
  const till = await registerTillUrls(context.daraja, {
    confirmationUrl: `${base}/confirmation`,
    validationUrl: `${base}/validation`,
  });
  if (isDone(till.kind)) await context.till.recordRegistration('till');
  const { nominatedNumber } = context.daraja.settings;
  if (!nominatedNumber) {
    return {
      till: described(till),
      statement: { kind: 'not set up', detail: 'MPESA_NOMINATED_NUMBER is not set' },
    };
  }
  const statement = await registerStatement(context.daraja, {
    nominatedNumber,
    callbackUrl: `${base}/confirmation`,
  });
  if (isDone(statement.kind)) await context.till.recordRegistration('statement');
  return { till: described(till), statement: described(statement) };
}

const isDone = (kind: string): boolean => kind === 'registered' || kind === 'already registered';

type Registration = Awaited<ReturnType<typeof registerTillUrls>>;

function described(outcome: Registration): RegistrationOutcome {
  if (outcome.kind === 'refused') {
    return { kind: 'refused', detail: `${outcome.code} ${outcome.description}`.trim() };
  }
  return outcome.kind === 'unknown' ? { kind: 'unknown', detail: outcome.reason } : { kind: outcome.kind };
}
