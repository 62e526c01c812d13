// Who of the staff calls: their session's access token comes along, and the database judges it.
import { asFields, parseFields } from './json-body.ts';
import type { MobileMoneyWorld } from './world.ts';

/**
 * The member of staff whose session a request carries.
 * @returns their user id; null when the request is nobody's or not of staff; throws StoreFailure
 */
export async function staffCaller(world: MobileMoneyWorld, request: Request): Promise<string | null> {
  const token = /^Bearer\s+(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1];
  const id = token && subjectOf(token);
  // What the token says of itself counts only once the database has taken it for genuine.
  return id && (await world.refunds.isStaff(token)) ? id : null;
}

function subjectOf(token: string): string | null {
  const payload = token.split('.')[1];
  if (!payload) return null;
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (letter) =>
      letter.charCodeAt(0),
    );
    const subject = asFields(parseFields(new TextDecoder().decode(bytes)))?.sub;
    return typeof subject === 'string' ? subject : null;
  } catch {
    return null;
  }
}
