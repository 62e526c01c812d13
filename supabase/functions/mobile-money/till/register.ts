// Registers the shortcode at M-PESA for payments without a prompt (C2B) and for statements.

import { callbackUrlFor } from '../callback-urls.ts';
import type { MobileMoneyContext } from '../context.ts';
import { type C2bVersion, type Registration, registerTillUrls } from '../daraja/c2b-registration.ts';
import { registerStatement } from '../daraja/statement.ts';
import { ProcedureError } from '../database/client.ts';

/** The outcome of one registration. */
export interface RegistrationOutcome {
  kind: 'registered' | 'already registered' | 'refused' | 'unknown' | 'not set up';
  detail?: string;
  /** The version of C2B that was used, of the till's addresses. */
  version?: C2bVersion;
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
  const urls = { confirmationUrl: `${base}/confirmation`, validationUrl: `${base}/validation` };
  const earlier = await context.till.readRegistration();
  const registered = await registerTillUrls(context.daraja, urls, earlier?.version ?? null);
  const { version, lacks } = registered;
  if (isDone(registered.kind)) await context.till.recordRegistration('till', version);
  const till: RegistrationOutcome = { ...described(registered), version };
  if (lacks) {
    const why = `The app lacks C2B ${lacks}, so ${version} was used.`;
    till.detail = till.detail ? `${why} ${till.detail}` : why;
  }
  const { nominatedNumber } = context.daraja.settings;
  if (!nominatedNumber) {
    return {
      till,
      statement: { kind: 'not set up', detail: 'MPESA_NOMINATED_NUMBER is not set' },
    };
  }
  const statement = await registerStatement(context.daraja, {
    nominatedNumber,
    callbackUrl: `${base}/confirmation`,
  });
  if (isDone(statement.kind)) await context.till.recordRegistration('statement');
  return { till, statement: described(statement) };
}

/** As `registerTill`, for staff: too many within an hour are refused, before M-PESA is asked. */
export async function registerTillForStaff(
  context: MobileMoneyContext,
): Promise<Awaited<ReturnType<typeof registerTill>> | { error: string; code: string }> {
  try {
    await context.till.beginRegistration();
  } catch (error) {
    if (error instanceof ProcedureError) return { error: error.message, code: error.code };
    throw error;
  }
  return registerTill(context);
}

const isDone = (kind: Registration['kind']): boolean =>
  kind === 'registered' || kind === 'already registered';

function described(outcome: Registration): RegistrationOutcome {
  if (outcome.kind === 'refused') {
    return { kind: 'refused', detail: `${outcome.code} ${outcome.description}`.trim() };
  }
  return outcome.kind === 'unknown' ? { kind: 'unknown', detail: outcome.reason } : { kind: outcome.kind };
}
