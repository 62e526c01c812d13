// A request's body that can be refused in the middle and still be answered.
import { storageErrors } from '../storage-error.ts';

export interface RequestBody {
  /** The body; leaving the loop early does not break the connection. */
  chunks(): AsyncGenerator<Uint8Array, void>;
  /**
   * Discards the rest of the body, so that a client that reads only after sending receives the response.
   * Stops after 128 MiB or 10 seconds.
   */
  drain(): Promise<void>;
}

const maxDrainedBytes = 128 * 1024 * 1024;
const maxDrainMs = 10_000;

/** Opens a body; nothing else may read the request's body any more. */
export function openBody(request: Request): RequestBody {
  const reader = request.body?.getReader();
  let isDone = !reader;
  return {
    async *chunks() {
      while (reader && !isDone) {
        const { done, value } = await reader.read().catch(() => {
          isDone = true;
          throw storageErrors.request('The request ended before its body was complete');
        });
        if (done) isDone = true;
        else yield value;
      }
    },
    async drain() {
      const deadline = Date.now() + maxDrainMs;
      let left = maxDrainedBytes;
      try {
        while (reader && !isDone && left > 0) {
          let timer: NodeJS.Timeout | undefined;
          const late = new Promise<null>((done) => {
            timer = setTimeout(() => done(null), Math.max(0, deadline - Date.now()));
          });
          const part = await Promise.race([reader.read(), late]);
          clearTimeout(timer);
          if (part === null) return;
          if (part.done) isDone = true;
          else left -= part.value.length;
        }
      } catch {
        // The client has disconnected: no one waits for a response.
        isDone = true;
      }
    },
  };
}
