// One write of a staff screen: told when it succeeded or failed, and followed by a refresh of what it touched.
import { type UseMutationResult, useMutation, useQueryClient } from '@tanstack/react-query';
import { useCallback, useRef } from 'react';
import { showToast } from '../ui/toasts.tsx';
import { ChangedMeanwhile, wordsOf } from './table-answer.ts';

interface Save<Input, Output> {
  /** Writes; throws what went wrong (`dataOf` and `changedRow` do). */
  write(input: Input): Promise<Output>;
  /** The success toast's text (specification §8). Default: no toast, for what `onSuccess` reports. */
  success?: string | ((output: Output, input: Input) => string);
  /** The failure toast's text when the failure does not say what it is. */
  failure: string;
  /** The first words of the query keys that are read anew. */
  refresh: readonly string[];
  onSuccess?(output: Output, input: Input): void;
  /** When it tells of the failure by itself, beside its cause: no toast. */
  isToldElsewhere?(error: Error): boolean;
}

export function useSave<Input = void, Output = unknown>({
  write,
  success,
  failure,
  refresh,
  onSuccess,
  isToldElsewhere,
}: Save<Input, Output>): UseMutationResult<Output, Error, Input> {
  const queries = useQueryClient();
  const readAnew = () => Promise.all(refresh.map((word) => queries.invalidateQueries({ queryKey: [word] })));
  // What is under way is not asked for a second time: a button says that it is busy only once the screen is drawn anew.
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
      return readAnew();
    },
    onError(error) {
      if (!isToldElsewhere?.(error)) {
        console.warn(failure, error);
        showToast({
          kind: 'error',
          title: error instanceof ChangedMeanwhile ? 'Someone else changed this' : 'Error',
          text: wordsOf(error) || failure,
        });
      }
      // After a failure nobody knows what is there now. It is not waited for: the next try is the member's to begin.
      void readAnew();
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
