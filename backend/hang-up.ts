// Senders that go away before their request is whole: phones do it every day, and it is nobody's fault.

/** Whether an error says no more than that the sender of a request was gone before all of its body had come. */
export function isHangUp(error: unknown): boolean {
  const { message, code } = (error ?? {}) as Partial<Record<'message' | 'code', unknown>>;
  return error instanceof Error && message === 'aborted' && code === 'ECONNRESET';
}
