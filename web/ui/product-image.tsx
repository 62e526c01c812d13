// A product's picture in the size shown, or a glass of juice when there is none.
import { useCallback, useState } from 'react';

const drawn = /^(\/art\/[a-z0-9-]+)-960\.webp$/;
const widths = [240, 480, 960];

interface ProductImageProps {
  src: string | null;
  alt: string;
  /** How wide it is shown, as in the `sizes` attribute. */
  sizes: string;
  /** The largest picture of the first screen: fetched at once instead of lazily. */
  isFirst?: boolean;
  className?: string;
}

export function ProductImage({ src, alt, sizes, isFirst = false, className = '' }: ProductImageProps) {
  const [failed, setFailed] = useState<string | null>(null);
  // Before hydration nobody hears the error event, so a picture that is already broken is asked when it is attached.
  const inspect = useCallback(
    (image: HTMLImageElement | null) => {
      if (image?.complete && image.naturalWidth === 0) setFailed(src);
    },
    [src],
  );

  if (!src || failed === src) {
    return (
      <span
        role="img"
        aria-label={alt}
        className={`grid place-items-center bg-[color-mix(in_oklab,var(--flavour)_28%,var(--color-paper-deep))] text-[clamp(3rem,30cqw,8rem)] ${className}`}
      >
        <span aria-hidden="true">🧃</span>
      </span>
    );
  }

  const stem = drawn.exec(src)?.[1];
  const set = (format: string) => widths.map((width) => `${stem}-${width}.${format} ${width}w`).join(', ');
  return (
    <picture className="contents">
      {stem ? <source type="image/avif" srcSet={set('avif')} sizes={sizes} /> : null}
      <img
        ref={inspect}
        src={src}
        {...(stem ? { srcSet: set('webp'), sizes } : {})}
        alt={alt}
        width={960}
        height={960}
        decoding="async"
        {...(isFirst ? { fetchPriority: 'high' as const } : { loading: 'lazy' as const })}
        onError={() => setFailed(src)}
        className={`object-cover ${className}`}
      />
    </picture>
  );
}
