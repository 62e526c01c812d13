// The images of a drink that has several: one frame to swipe or scroll through, with a button for each image.
import { type ReactElement, useRef, useState } from 'react';
import { ProductImage, type ProductImageProps } from '../../ui/product-image.tsx';

export interface GalleryProps {
  /** The first image, as it is shown until this code has loaded. */
  first: ReactElement<ProductImageProps>;
  /** URLs of the others. */
  more: readonly string[];
}

export default function Gallery({ first: { props: first }, more }: GalleryProps) {
  const strip = useRef<HTMLUListElement>(null);
  const [shown, setShown] = useState(0);
  const images = [...new Set([first.src, ...more])];
  const show = (index: number) =>
    strip.current?.scrollTo({ left: index * strip.current.clientWidth, behavior: 'smooth' });
  return (
    <>
      <ul
        ref={strip}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll it, also without scripts
        tabIndex={0}
        aria-label={`Images of ${first.alt}`}
        onScroll={({ currentTarget: { scrollLeft, clientWidth } }) =>
          setShown(Math.round(scrollLeft / clientWidth))
        }
        className="absolute inset-0 flex snap-x snap-mandatory overflow-x-auto overscroll-x-contain -outline-offset-4 [scrollbar-width:none]"
      >
        {images.map((src, index) => (
          <li key={src} className="relative size-full shrink-0 snap-start snap-always">
            {index === 0 ? (
              <ProductImage {...first} />
            ) : (
              <ProductImage {...first} src={src} alt={`${first.alt}, image ${index + 1}`} isFirst={false} />
            )}
          </li>
        ))}
      </ul>
      <div className="absolute bottom-0 left-1/2 flex -translate-x-1/2 before:absolute before:inset-x-1 before:inset-y-2 before:rounded-pill before:bg-card/85 md:gap-2 md:p-4 md:before:hidden noscript:hidden">
        {images.map((src, index) => (
          <button
            key={src}
            type="button"
            aria-label={`Image ${index + 1} of ${images.length}`}
            aria-current={index === shown}
            onClick={() => show(index)}
            className="group relative grid size-11 place-items-center md:size-16"
          >
            {/* Small images would hide the vessel on a phone. */}
            <span className="size-2.5 rounded-pill border border-dusk-950 transition-[width] group-aria-current:w-6 group-aria-current:bg-dusk-950 md:hidden forced-colors:group-aria-current:bg-[Highlight]" />
            <ProductImage
              src={src}
              alt=""
              sizes="64px"
              className="size-full rounded-lg border-3 border-white shadow-md group-aria-current:border-afterglow max-md:hidden"
            />
          </button>
        ))}
      </div>
    </>
  );
}
