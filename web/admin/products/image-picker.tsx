// Picks a product's image: shows the saved one, the picked one and its error.
import { useEffect, useId, useRef, useState } from 'react';
import { checkImageFile, imageTypes } from '../../../domain/uploaded-image.ts';
import { Button } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { ProductImage } from '../../ui/product-image.tsx';
import { messageForUser } from '../data/table-answer.ts';
import { StaffIcon } from '../layout/staff-icons.tsx';

interface ImagePickerProps {
  /** The saved image. */
  saved: string | null;
  /** The image picked in this dialog. */
  picked: File | null;
  problem: string | undefined;
  /** Uploaded share from 0 to 1; null while nothing is uploaded. */
  progress: number | null;
  isDisabled: boolean;
  /** Called when resizing a photo begins and ends. */
  onPreparing(isPreparing: boolean): void;
  onPick(file: File | null): void;
  onProblem(problem: string): void;
}

export function ImagePicker({
  saved,
  picked,
  problem,
  progress,
  isDisabled,
  onPreparing,
  onPick,
  onProblem,
}: ImagePickerProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const preview = usePreview(picked);
  const [unshowable, setUnshowable] = useState<string | null>(null);
  const [isPreparing, setIsPreparing] = useState(false);
  const setPreparing = (is: boolean) => {
    setIsPreparing(is);
    onPreparing(is);
  };
  // Only the last choice counts, and none after the dialog has closed.
  const choice = useRef(0);
  useEffect(
    () => () => {
      choice.current += 1;
    },
    [],
  );

  async function choose(file: File | undefined) {
    if (!file) return;
    choice.current += 1;
    const ownChoice = choice.current;
    const wrong = checkImageFile(file);
    setPreparing(!wrong);
    if (wrong) return onProblem(wrong);
    try {
      const { prepareImage } = await import('./prepare-image.ts');
      const prepared = await prepareImage(file);
      if (ownChoice === choice.current) onPick(prepared);
    } catch (error) {
      console.warn('The image could not be prepared', error);
      if (ownChoice === choice.current)
        onProblem(messageForUser(error as Error) || 'The image could not be prepared. Please try again.');
    } finally {
      if (ownChoice === choice.current) setPreparing(false);
    }
  }
  return (
    <fieldset className="flex flex-wrap items-center gap-x-4 gap-y-3 sm:gap-x-5" disabled={isDisabled}>
      <legend className="sr-only">Image</legend>
      <div className="relative size-24 shrink-0 sm:size-28">
        <div className="@container grid size-full place-items-center overflow-hidden rounded-lg border border-line bg-paper-deep text-ink-faint">
          {preview && preview !== unshowable ? (
            <img
              src={preview}
              alt="Preview of the new one"
              width={112}
              height={112}
              onError={() => setUnshowable(preview)}
              className="size-full object-cover"
            />
          ) : saved && !preview ? (
            <ProductImage src={saved} alt="The image as it is now" sizes="112px" className="size-full" />
          ) : (
            <StaffIcon name="image" className="size-9" />
          )}
        </div>
        {picked ? (
          <button
            type="button"
            aria-label="Remove the chosen image"
            onClick={() => {
              choice.current += 1;
              onPick(null);
              button.current?.focus();
            }}
            className="absolute -top-3 -right-3 grid size-9 place-items-center rounded-pill border border-line bg-card text-ink shadow-md hover:bg-paper-deep disabled:opacity-40"
          >
            <Icon name="close" className="size-4" />
          </button>
        ) : null}
      </div>
      <div className="grid min-w-40 flex-1 justify-items-start gap-2">
        <Button
          ref={button}
          tone="quiet"
          onClick={() => input.current?.click()}
          aria-describedby={`${id}-hint${problem ? ` ${id}-problem` : ''}`}
        >
          {saved || picked ? 'Change Image' : 'Add Image'}
        </Button>
        <input
          ref={input}
          type="file"
          accept={[...imageTypes, 'image/heic', 'image/heif', '.heic', '.heif'].join(',')}
          aria-label="Image file"
          tabIndex={-1}
          className="sr-only"
          onChange={(event) => {
            void choose(event.target.files?.[0]);
            // Lets the same file be chosen again.
            event.target.value = '';
          }}
        />
        {problem ? (
          <p id={`${id}-problem`} role="alert" className="text-sm font-semibold text-danger">
            {problem}
          </p>
        ) : null}
        <p id={`${id}-hint`} role={isPreparing ? 'status' : undefined} className="text-sm text-ink-faint">
          {isPreparing
            ? 'Preparing the photo…'
            : progress !== null
              ? `Uploading… ${Math.floor(progress * 100)} %`
              : picked
                ? picked.name
                : 'A photo up to 25 MB: JPEG, PNG, WebP, AVIF, GIF or HEIC. Shown as a square.'}
        </p>
        {progress !== null ? (
          <progress
            aria-label="Uploading the image"
            max={1}
            value={progress}
            className="h-1.5 w-full max-w-60 appearance-none overflow-hidden rounded-pill bg-line [&::-moz-progress-bar]:bg-leaf-600 [&::-webkit-progress-bar]:bg-line [&::-webkit-progress-value]:bg-leaf-600"
          />
        ) : null}
      </div>
    </fieldset>
  );
}

/** An object URL of a local file, revoked when it is no longer shown. */
function usePreview(file: File | null): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    if (!file) return;
    const objectUrl = URL.createObjectURL(file);
    setAddress(objectUrl);
    return () => {
      setAddress(null);
      URL.revokeObjectURL(objectUrl);
    };
  }, [file]);
  return address;
}
