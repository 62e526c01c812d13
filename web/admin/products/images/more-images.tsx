// Picks the further images of a product, which its page shows after the first.
import { useId, useLayoutEffect, useRef, useState } from 'react';
import { maxMoreImages } from '../../../../domain/products/uploaded-image.ts';
import { Icon } from '../../../ui/icons.tsx';
import { ImagePreview, RemoveImage } from './image-preview.tsx';
import { acceptedImages, useImageChoice } from './use-image-choice.ts';

interface MoreImagesProps {
  /** Saved and picked ones, in the order of the page. */
  images: readonly (string | File)[];
  isDisabled: boolean;
  /** Called when resizing photos begins and ends. */
  onPreparing(isPreparing: boolean): void;
  onChange(images: readonly (string | File)[]): void;
}

export function MoreImages({ images, isDisabled, onPreparing, onChange }: MoreImagesProps) {
  const id = useId();
  const input = useRef<HTMLInputElement>(null);
  const add = useRef<HTMLButtonElement>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const free = maxMoreImages - images.length;
  const { choose, isPreparing } = useImageChoice({
    onPreparing,
    onPick(files) {
      setProblem(
        files.length > free ? `Only ${maxMoreImages} more images fit. The rest was left out.` : null,
      );
      onChange([...images, ...files.slice(0, free)]);
    },
    onProblem: setProblem,
  });
  // The pressed button goes, and after the last possible image the tile comes back only with the next rendering.
  const [isFocusDue, setFocusDue] = useState(false);
  useLayoutEffect(() => {
    if (!isFocusDue) return;
    setFocusDue(false);
    add.current?.focus();
  }, [isFocusDue]);
  const change = (next: readonly (string | File)[]) => {
    setProblem(null);
    onChange(next);
  };
  return (
    <fieldset disabled={isDisabled} className="grid gap-2">
      <legend className="float-left mb-2 w-full text-sm font-semibold">
        More Images{' '}
        <span className="font-normal text-ink-soft">of its label, the drink in a glass, a pack</span>
      </legend>
      <ul className="flex flex-wrap gap-x-4 gap-y-3 clear-both">
        {images.map((image, index) => (
          <li key={keyOf(image)} className="relative size-20">
            <ImagePreview image={image} alt={`Image ${index + 2}`} side="80px" />
            <RemoveImage
              label={`Remove image ${index + 2}`}
              onClick={() => {
                change(images.filter((other) => other !== image));
                setFocusDue(true);
              }}
            />
          </li>
        ))}
        {free > 0 ? (
          <li>
            <button
              ref={add}
              type="button"
              aria-label="Add more images"
              aria-describedby={`${id}-hint`}
              onClick={() => input.current?.click()}
              className="grid size-20 place-items-center rounded-lg border border-dashed border-line-strong bg-card text-ink-soft hover:bg-paper-deep disabled:opacity-40"
            >
              <Icon name="plus" className="size-6" />
            </button>
          </li>
        ) : null}
      </ul>
      <input
        ref={input}
        type="file"
        multiple
        accept={acceptedImages}
        aria-label="Files of more images"
        tabIndex={-1}
        className="sr-only"
        onChange={(event) => {
          void choose([...(event.target.files ?? [])]);
          // Lets the same file be chosen again.
          event.target.value = '';
        }}
      />
      {problem ? (
        <p role="alert" className="text-sm font-semibold text-danger">
          {problem}
        </p>
      ) : null}
      <p id={`${id}-hint`} role={isPreparing ? 'status' : undefined} className="text-sm text-ink-faint">
        {isPreparing ? 'Preparing the photos…' : `Up to ${maxMoreImages}, shown after the first.`}
      </p>
    </fieldset>
  );
}

const keys = new WeakMap<File, string>();

/** A key for a list: the same file may be picked twice. */
function keyOf(image: string | File): string {
  if (typeof image === 'string') return image;
  const key = keys.get(image) ?? crypto.randomUUID();
  keys.set(image, key);
  return key;
}
