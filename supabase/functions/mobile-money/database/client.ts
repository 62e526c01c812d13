// The client of the database's procedures: calls over the table API with the secret key, and their errors.
import { PostgrestClient } from '@supabase/postgrest-js';
import type { StaffArea } from '../../../../domain/people/staff-rights.ts';
import type { Database } from '../../../types.ts';
import { visitorHeaders } from '../caller-address.ts';
import type { DatabaseSettings } from '../settings.ts';

const TIMEOUT_MS = 15_000;
/** M-PESA waits about five seconds for the answer to a callback. */
const RETRY_DELAYS_MS = [100, 400, 1500];

export type Procedures = Database['public']['Functions'];
export type Payment = Database['public']['Tables']['payments']['Row'];
export type Refund = Database['public']['Tables']['refunds']['Row'];

/** A procedure refused the call, with a code of docs/error-codes.md and a message for people. */
export class ProcedureError extends Error {
  override readonly name = 'ProcedureError';
  readonly status: number;
  readonly code: string;
  constructor(message: string, status: number, code: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The database did not answer, or with an unexpected error. */
export class DatabaseUnavailable extends Error {
  override readonly name = 'DatabaseUnavailable';
  /** The services answered that the database is down: they have logged its cause. */
  readonly isOutage: boolean;
  constructor(message: string, isOutage: boolean) {
    super(message);
    this.isOutage = isOutage;
  }
}

export interface DatabaseClient {
  /**
   * Calls a procedure.
   * @param callerAddress IP address of the client whose network the call counts for, in the limits of the database and in
   *   the fair queues. Default: the shop itself
   * @returns the procedure's result
   * @throws ProcedureError when the procedure refuses, DatabaseUnavailable for every other failure
   */
  call<Name extends keyof Procedures & string>(
    name: Name,
    parameters: Procedures[Name]['Args'],
    callerAddress?: string | null,
  ): Promise<Procedures[Name]['Returns']>;
  /** The same with the rights of a user. @throws as `call` */
  callAs<Name extends keyof Procedures & string>(
    accessToken: string,
    name: Name,
    parameters: Procedures[Name]['Args'],
  ): Promise<Procedures[Name]['Returns']>;
  /** Whether the bearer of an access token is active staff whose role has the area. The token may be any text. */
  mayStaff(accessToken: string, area: StaffArea): Promise<boolean>;
}

/**
 * Creates the client.
 * @param settings URL and secret key of the services
 */
export function connectDatabase(settings: DatabaseSettings): DatabaseClient {
  const connect = (bearer: string) =>
    new PostgrestClient<Database>(`${settings.url}/rest/v1`, {
      headers: { apikey: settings.secretKey, Authorization: `Bearer ${bearer}` },
      timeout: TIMEOUT_MS,
      ...(settings.fetch ? { fetch: settings.fetch } : {}),
    });
  const client = connect(settings.secretKey);
  async function send<Name extends keyof Procedures & string>(
    sender: typeof client,
    name: Name,
    parameters: Procedures[Name]['Args'],
    callerAddress: string | null,
  ): Promise<Procedures[Name]['Returns']> {
    const request = sender.rpc(name, parameters);
    const { data, error, status } = await (callerAddress
      ? request.setHeader(visitorHeaders.address, callerAddress)
      : request);
    if (!error) return data;
    // Procedures refuse with SQLSTATEs PT4xx.
    if (/^PT4\d\d$/.test(error.code ?? '')) throw new ProcedureError(error.message, status, error.details);
    throw new DatabaseUnavailable(`${status} ${error.code ?? ''} ${error.message}`.trim(), status === 503);
  }
  return {
    call: (name, parameters, callerAddress = null) => send(client, name, parameters, callerAddress),
    callAs: (accessToken, name, parameters) => send(connect(accessToken), name, parameters, null),
    async mayStaff(accessToken, area) {
      const { data, error } = await connect(accessToken).rpc('may', { area });
      return !error && data === true;
    },
  };
}

/**
 * Repeats a call while the database is unavailable, for about two seconds: M-PESA sends a callback once.
 * @param call throws DatabaseUnavailable to be repeated
 */
export async function withRetries<Result>(call: () => Promise<Result>): Promise<Result> {
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) throw error;
      await new Promise((done) => setTimeout(done, delayMs));
    }
  }
  return call();
}
