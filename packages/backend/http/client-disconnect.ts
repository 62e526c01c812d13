// Detects clients that disconnect before their request is complete, which phones often do and which is not an error.

/** Whether an error only means that the client disconnected before its body was complete. */
export function isClientDisconnect(error: unknown): boolean {
  const { message, code } = (error ?? {}) as Partial<Record<'message' | 'code', unknown>>;
  return error instanceof Error && message === 'aborted' && code === 'ECONNRESET';
}
