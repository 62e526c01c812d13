// Compresses answers of tables and procedures: on a slow line the bytes of a list are seconds.
import { PlainResponse } from '@jani-juice/backend/http';
import { compress, type Encoding } from '../pages/page-cache.ts';

/** Shorter answers fit into one packet anyway. */
const minLength = 1400;

/** The same answer, compressed if it is long. Callers prove themselves with a header, so no other site can guess at secrets by lengths. */
export async function compressAnswer(answer: PlainResponse, encoding: Encoding): Promise<PlainResponse> {
  const { status, statusText, headers, body } = answer;
  if (typeof body !== 'string' || body.length < minLength) return answer;
  const vary = [headers.vary ?? [], 'accept-encoding'].flat().join(', ');
  const varying = { ...headers, vary };
  if (encoding === 'identity') return new PlainResponse(status, varying, body, statusText);
  const compressed = await compress(Buffer.from(body), encoding, 'quick');
  return new PlainResponse(
    status,
    { ...varying, 'content-encoding': encoding },
    new Uint8Array(compressed),
    statusText,
  );
}
