// Where a request comes from, as the server in front of the function says.
import { storableText } from './json-body.ts';

/** The network address of whoever sent the request; null when it is not told. */
export function senderOf(request: Request): string | null {
  const first = request.headers.get('x-forwarded-for')?.split(',')[0]?.trim();
  return first ? storableText(first, 64) : null;
}
