// A product's image, or a placeholder with a glass of juice.
import { useCallback, useState } from 'react';
import { isAllowedImageUrl, renderedImageUrl, renderedSides } from '../../domain/products/product-image.ts';

const drawn = /^(\/art\/[a-z0-9-]+)-960\.webp$/;
const drawnWidths = [240, 360, 480, 720, 960];

export interface ProductImageProps {
  src: string | null;
  alt: string;
  /** Displayed width, as in the `sizes` attribute. */
  sizes: string;
  /** The largest image of the first screen: loads eagerly instead of lazily. */
  isFirst?: boolean;
  className?: string;
}

interface Source {
  src: string;
  srcSet?: string;
  avif?: string;
}

/** URLs to try one after the other until an image loads. */
function sourcesOf(src: string): Source[] {
  const set = (widths: readonly number[], address: (width: number) => string | null) =>
    widths.map((width) => `${address(width)} ${width}w`).join(', ');
  const stem = drawn.exec(src)?.[1];
  if (stem) {
    const of = (format: string) => set(drawnWidths, (width) => `${stem}-${width}.${format}`);
    return [{ src, srcSet: of('webp'), avif: of('avif') }];
  }
  const rendered = renderedImageUrl(src, 960);
  // Projects without image rendering serve the uploaded image.
  return rendered
    ? [{ src: rendered, srcSet: set(renderedSides, (width) => renderedImageUrl(src, width)) }, { src }]
    : [{ src }];
}

export function ProductImage({ src, alt, sizes, isFirst = false, className = '' }: ProductImageProps) {
  const [failed, setFailed] = useState<{ src: string | null; times: number }>({ src, times: 0 });
  const times = failed.src === src ? failed.times : 0;
  const fail = useCallback(() => setFailed({ src, times: times + 1 }), [src, times]);
  // The error event is lost before hydration, so a broken image is detected when the element is attached.
  const inspect = useCallback(
    (image: HTMLImageElement | null) => {
      if (image?.complete && image.naturalWidth === 0) fail();
    },
    [fail],
  );

  const source = src && isAllowedImageUrl(src) ? sourcesOf(src)[times] : undefined;
  if (!source) {
    return (
      <span
        {...(alt ? { role: 'img', 'aria-label': alt } : { 'aria-hidden': true })}
        className={`grid place-items-center bg-[color-mix(in_oklab,var(--flavour)_28%,var(--color-paper-deep))] text-glass ${className}`}
      >
        <span aria-hidden="true">🧃</span>
      </span>
    );
  }

  return (
    <picture className="contents">
      {source.avif ? <source type="image/avif" srcSet={source.avif} sizes={sizes} /> : null}
      <img
        key={source.src}
        ref={inspect}
        src={source.src}
        {...(source.srcSet ? { srcSet: source.srcSet, sizes } : {})}
        alt={alt}
        width={960}
        height={960}
        decoding="async"
        {...(isFirst ? { fetchPriority: 'high' as const } : { loading: 'lazy' as const })}
        onError={fail}
        className={`object-cover ${className}`}
      />
    </picture>
  );
}
