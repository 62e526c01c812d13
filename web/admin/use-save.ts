// One write of a staff screen: reports success or failure, and refetches the changed data.
import { type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef } from 'react';
import { showToast } from '../ui/toasts.tsx';
import { ConflictError, isUnanswered, wordsOf } from './table-answer.ts';

interface Save<Input, Output> {
  /** Writes, or throws an error (as `dataOf` and `changedRow` do). */
  write(input: Input): Promise<Output>;
  /** The success toast's text (specification §8). Default: no toast, for what `onSuccess` reports. */
  success?: string | ((output: Output, input: Input) => string);
  /** The failure toast's text if the error has none. */
  failure: string;
  /** Whether repeating it could move money or send a message twice. Without an answer it is not reported as failed. */
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
  const underWay = useRef(new Set<string>());
  const save = useMutation<Output, Error, Input>({
    async mutationFn(input) {
      try {
        return await write(input);
      } finally {
        underWay.current.delete(keyOf(input));
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
          text: hasNoAnswer ? noAnswer : wordsOf(error) || failure,
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
      (...asked) => {
        const key = keyOf(asked[0]);
        if (underWay.current.has(key)) return;
        underWay.current.add(key);
        mutate(...asked);
      },
      [mutate],
    ),
  };
}

/** The same for what asks for the same. */
const keyOf = (input: unknown): string => JSON.stringify(input) ?? '';
