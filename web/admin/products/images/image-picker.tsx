// Picks a product's image: shows the saved one, the picked one and its error.
import { useId, useRef } from 'react';
import { Button } from '../../../ui/button.tsx';
import { ImagePreview, RemoveImage } from './image-preview.tsx';
import { acceptedImages, useImageChoice } from './use-image-choice.ts';

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
  const { choose, drop, isPreparing } = useImageChoice({
    onPreparing,
    onPick: ([file]) => onPick(file ?? null),
    onProblem,
  });
  return (
    <fieldset className="flex flex-wrap items-center gap-x-4 gap-y-3 sm:gap-x-5" disabled={isDisabled}>
      <legend className="sr-only">Image</legend>
      <div className="relative size-24 shrink-0 sm:size-28">
        <ImagePreview
          image={picked ?? saved}
          alt={picked ? 'Preview of the new one' : 'The image as it is now'}
          side="112px"
        />
        {picked ? (
          <RemoveImage
            label="Remove the chosen image"
            onClick={() => {
              drop();
              onPick(null);
              button.current?.focus();
            }}
          />
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
          accept={acceptedImages}
          aria-label="Image file"
          tabIndex={-1}
          className="sr-only"
          onChange={(event) => {
            void choose([...(event.target.files ?? [])]);
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
