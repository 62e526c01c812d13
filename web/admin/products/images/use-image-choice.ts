// Checks and prepares the image files that a member chooses.
import { useCallback, useEffect, useRef, useState } from 'react';
import { checkImageFile, imageTypes } from '../../../../domain/products/uploaded-image.ts';
import { messageForUser } from '../../data/table-answer.ts';

/** The `accept` attribute of a file picker. */
export const acceptedImages = [...imageTypes, 'image/heic', 'image/heif', '.heic', '.heif'].join(',');

interface ImageChoice {
  /** Called when resizing photos begins and ends. */
  onPreparing(isPreparing: boolean): void;
  /** Called with the images that can be uploaded. */
  onPick(files: readonly File[]): void;
  onProblem(problem: string): void;
}

export function useImageChoice({ onPreparing, onPick, onProblem }: ImageChoice) {
  const [isPreparing, setIsPreparing] = useState(false);
  const setPreparing = (is: boolean) => {
    setIsPreparing(is);
    onPreparing(is);
  };
  // Only the last choice counts, and none after the dialog has closed.
  const last = useRef(0);
  const drop = useCallback(() => {
    last.current += 1;
  }, []);
  useEffect(() => drop, [drop]);

  async function choose(files: readonly File[]): Promise<void> {
    if (files.length === 0) return;
    last.current += 1;
    const own = last.current;
    const wrong = files.map(checkImageFile).find((problem) => problem !== null);
    setPreparing(!wrong);
    if (wrong) return onProblem(wrong);
    try {
      const { prepareImage } = await import('./prepare-image.ts');
      const prepared: File[] = [];
      // One after the other: a phone has the memory for one photo.
      for (const file of files) prepared.push(await prepareImage(file));
      if (own === last.current) onPick(prepared);
    } catch (error) {
      console.warn('The image could not be prepared', error);
      if (own === last.current)
        onProblem(messageForUser(error as Error) || 'The image could not be prepared. Please try again.');
    } finally {
      if (own === last.current) setPreparing(false);
    }
  }
  return { choose, drop, isPreparing };
}
