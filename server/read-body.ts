// Bodies of requests, read up to a limit, so that no sender decides how much memory we use.

/**
 * Reads the body of a request.
 * @param maxBytes bytes that are accepted
 * @returns null when there are more; the rest is not read then
 */
export async function readBody(request: Request, maxBytes: number): Promise<Uint8Array<ArrayBuffer> | null> {
  if (!request.body) return new Uint8Array();
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) return null;
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop cancels the rest of the stream.
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > maxBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
