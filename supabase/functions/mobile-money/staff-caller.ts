// The staff member who calls, by the access token of their session.
import type { StaffArea } from '../../../domain/people/staff-rights.ts';
import type { MobileMoneyContext } from './context.ts';
import { parseObject } from './request-body.ts';
import { bearerTokenOf } from './secrets.ts';

/**
 * Returns the user id of the calling staff member, or null for any other caller and for a role without the area. The database verifies
 * the token.
 */
export async function staffCaller(
  context: MobileMoneyContext,
  request: Request,
  area: StaffArea,
): Promise<string | null> {
  const token = bearerTokenOf(request.headers);
  const id = token && subjectOf(token);
  return id && (await context.database.mayStaff(token, area)) ? id : null;
}

/** Reads the user id of a token that is not verified yet. */
function subjectOf(token: string): string | null {
  const payload = token.split('.')[1];
  if (!payload) return null;
  try {
    const bytes = Uint8Array.from(
      atob(payload.replaceAll('-', '+').replaceAll('_', '/')),
      (character) => character.codePointAt(0) ?? 0,
    );
    const subject = parseObject(new TextDecoder().decode(bytes))?.sub;
    return typeof subject === 'string' ? subject : null;
  } catch {
    return null;
  }
}
