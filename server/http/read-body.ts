// Reads request bodies up to a limit, so that no client can exhaust the memory.

/**
 * Reads the body of a request.
 * @param maxBytes maximum bytes
 * @returns null when the body is longer; the rest is not read
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
