// Forms are small: what a page is sent is read up to a limit, so that no sender decides how much memory we use.

/**
 * The request with its body in memory.
 * @param most bytes that are taken
 * @returns null when there are more
 */
export async function boundedRequest(request: Request, most: number): Promise<Request | null> {
  if (!request.body) return request;
  if (Number(request.headers.get('content-length') ?? 0) > most) return null;
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop cancels the rest of the stream.
  for await (const chunk of request.body) {
    size += chunk.length;
    if (size > most) return null;
    chunks.push(chunk);
  }
  const { method, headers, signal } = request;
  return new Request(request.url, { method, headers, signal, body: Buffer.concat(chunks) });
}

/**
 * Whether a page can read what a request sends: pages take forms, and nothing else.
 * @param request with its body in memory
 */
export async function hasReadableForm(request: Request): Promise<boolean> {
  if (request.method !== 'POST') return true;
  return request
    .clone()
    .formData()
    .then(
      () => true,
      () => false,
    );
}
