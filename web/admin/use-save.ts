// A write of a staff screen: reports success or failure, and refetches the changed data.
import { type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef } from 'react';
import { showToast } from '../ui/toasts.tsx';
import { ConflictError, isUnanswered, messageForUser } from './table-answer.ts';

interface Save<Input, Output> {
  /** Writes, or throws an error (as `dataOf` and `changedRow` do). */
  write(input: Input): Promise<Output>;
  /** Text of the success toast (specification §8). Default: no toast, for callers with `onSuccess`. */
  success?: string | ((output: Output, input: Input) => string);
  /** Text of the failure toast if the error has none. */
  failure: string;
  /**
   * Whether repeating it could move money or send a message twice. Without a response it is not reported as failed.
   */
  isUnsafeToRepeat?: boolean;
  /** First parts of the query keys to refetch. */
  refresh: readonly string[];
  onSuccess?(output: Output, input: Input): void;
  /** Whether the screen shows the error itself, beside its cause: no toast. */
  isShownElsewhere?(error: Error): boolean;
}

const noAnswer = 'The connection broke, so this may have been saved. Check before you try again.';

export function useSave<Input = void, Output = unknown>({
  write,
  success,
  failure,
  isUnsafeToRepeat = false,
  refresh,
  onSuccess,
  isShownElsewhere,
}: Save<Input, Output>): UseMutationResult<Output, Error, Input> {
  const queries = useQueryClient();
  const refetch = () => Promise.all(refresh.map((word) => queries.invalidateQueries({ queryKey: [word] })));
  // Ignores a second press while the first write runs: a button is shown as busy only after the next render.
  const runningKeys = useRef(new Set<string>());
  const save = useMutation<Output, Error, Input>({
    async mutationFn(input) {
      try {
        return await write(input);
      } finally {
        runningKeys.current.delete(keyOf(input));
      }
    },
    onSuccess(output, input) {
      const text = typeof success === 'function' ? success(output, input) : success;
      if (text) showToast({ title: 'Success', text });
      onSuccess?.(output, input);
      return refetch();
    },
    onError(error) {
      if (!isShownElsewhere?.(error)) {
        console.warn(failure, error);
        const hasNoAnswer = isUnsafeToRepeat && isUnanswered(error);
        showToast({
          kind: 'error',
          title:
            error instanceof ConflictError
              ? 'Someone else changed this'
              : hasNoAnswer
                ? 'No answer'
                : 'Error',
          text: hasNoAnswer ? noAnswer : messageForUser(error) || failure,
        });
      }
      // After a failure the current state is unknown: refetch without waiting, so that the member can retry.
      void refetch();
    },
  });
  const { mutate } = save;
  return {
    ...save,
    mutate: useCallback<typeof mutate>(
      (...parameters) => {
        const key = keyOf(parameters[0]);
        if (runningKeys.current.has(key)) return;
        runningKeys.current.add(key);
        mutate(...parameters);
      },
      [mutate],
    ),
  };
}

/** Requests for the same thing have the same key. */
const keyOf = (input: unknown): string => JSON.stringify(input) ?? '';
