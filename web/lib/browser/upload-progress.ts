// A `fetch` that reports the progress of its upload, which the browser's does not.

/**
 * Creates a `fetch` with progress.
 * @param onProgress called with the sent share, 0 to 1
 * @param stop aborts the upload
 */
export function withUploadProgress(onProgress: (part: number) => void, stop?: AbortSignal): typeof fetch {
  return (input, init = {}) => {
    // XMLHttpRequest cannot send these: use the ordinary `fetch`, without progress.
    if (input instanceof Request || init.body instanceof ReadableStream) return fetch(input, init);
    return new Promise((resolve, reject) => {
      const signals = [init.signal, stop];
      // It may have been stopped while the storage client was loading.
      if (signals.some((signal) => signal?.aborted)) throw stopped();
      const request = new XMLHttpRequest();
      request.open(init.method ?? 'GET', String(input));
      new Headers(init.headers).forEach((value, name) => {
        request.setRequestHeader(name, value);
      });
      request.responseType = 'blob';
      request.upload.onprogress = ({ loaded, total, lengthComputable }) => {
        if (lengthComputable && total > 0) onProgress(loaded / total);
      };
      request.onload = () => {
        const { status, statusText } = request;
        const body = status === 204 || status === 205 || status === 304 ? null : (request.response as Blob);
        resolve(new Response(body, { status, statusText, headers: headersOf(request) }));
      };
      request.onerror = () => reject(new TypeError('Failed to fetch'));
      request.onabort = () => reject(stopped());
      for (const signal of signals) signal?.addEventListener('abort', () => request.abort());
      request.send((init.body ?? null) as XMLHttpRequestBodyInit | null);
    });
  };
}

const stopped = () => new DOMException('The upload was stopped', 'AbortError');

function headersOf(request: XMLHttpRequest): Headers {
  const headers = new Headers();
  for (const line of request
    .getAllResponseHeaders()
    .trim()
    .split(/[\r\n]+/)) {
    const colon = line.indexOf(':');
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim());
  }
  return headers;
}
