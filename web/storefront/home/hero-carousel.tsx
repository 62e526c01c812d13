// The four slides at the top of the home page: a scrolling row with scroll snap, also without JavaScript. With
// JavaScript it advances by itself and loops: whenever it rests, the shown slide becomes the second of the row.
import { useEffect, useEffectEvent, useLayoutEffect, useRef, useState } from 'react';
import { Link } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { type HeroSlide, heroSlides } from './hero-slides.ts';

const slideDelayMs = 5000;
/** Time in ms without a scroll event after which the row rests. */
const restMs = 100;

const count = heroSlides.length;

// Slightly below the full width, so that rounding does not make phones load the next larger image.
const lowSizes = '99vw';

const isStill = () => window.matchMedia('(prefers-reduced-motion: reduce)').matches;

const slidesOf = (row: Element | null) => [...(row?.children ?? [])] as HTMLElement[];

/** Index of the slide at which the row rests; -1 between two slides. */
const slideShown = (row: Element | null) =>
  slidesOf(row).findIndex(({ offsetLeft }) => Math.abs(offsetLeft - (row?.scrollLeft ?? 0)) < 2);

export function HeroCarousel() {
  const row = useRef<HTMLDivElement>(null);
  const [selected, setSelected] = useState(0);
  // Slide at the second position of the row. Null until the page has loaded.
  const [second, setSecond] = useState<number | null>(null);
  const [isPlaying, setIsPlaying] = useState(false);
  // Later slides load their image shortly before they are shown, or when a pointer is about to move the row. Then also the last one,
  // which is before the first.
  const [drawn, setDrawn] = useState(1);
  const [isLastDrawn, setLastDrawn] = useState(false);
  const restTimer = useRef(0);
  const isAttached = second !== null;

  function select(index: number) {
    setSelected(index);
    setDrawn((before) => Math.max(before, index + 2));
  }

  function scrollToSlide(index: number) {
    window.clearTimeout(restTimer.current);
    select(index);
    row.current?.scrollTo({
      left: slidesOf(row.current)[index]?.offsetLeft ?? 0,
      behavior: isStill() ? 'instant' : 'smooth',
    });
  }

  function show(index: number) {
    setIsPlaying(false);
    scrollToSlide(index);
  }

  function onScroll() {
    window.clearTimeout(restTimer.current);
    if (isAttached) restTimer.current = window.setTimeout(rest, restMs);
  }

  function rest() {
    const slide = slideShown(row.current);
    if (slide < 0) return;
    setSecond(slide);
    if (slide === selected) return;
    setIsPlaying(false);
    select(slide);
  }

  const attach = useEffectEvent(() => {
    const slide = Math.max(0, slideShown(row.current));
    setSecond(slide);
    if (slide > 0) select(slide);
    setIsPlaying(!isStill());
  });

  useEffect(() => {
    let timer = 0;
    const start = () => {
      attach();
      timer = window.setTimeout(() => setDrawn((before) => Math.max(before, 2)), slideDelayMs / 2);
    };
    if (document.readyState === 'complete') start();
    else window.addEventListener('load', start, { once: true });
    return () => {
      window.clearTimeout(timer);
      window.clearTimeout(restTimer.current);
      window.removeEventListener('load', start);
    };
  }, []);

  // A layout effect: before the browser paints the new order.
  useLayoutEffect(() => {
    if (second === null) return;
    row.current?.scrollTo({ left: slidesOf(row.current)[second]?.offsetLeft ?? 0, behavior: 'instant' });
  }, [second]);

  const advance = useEffectEvent(() => {
    if (!document.hidden) scrollToSlide((selected + 1) % count);
  });
  // Restarts the timer with each slide.
  // biome-ignore lint/correctness/useExhaustiveDependencies: restarts with each slide
  useEffect(() => {
    if (!isPlaying) return;
    const timer = window.setInterval(advance, slideDelayMs);
    return () => window.clearInterval(timer);
  }, [isPlaying, selected]);

  return (
    <section
      aria-roledescription="carousel"
      aria-label="What we stand for"
      className="on-dusk relative bg-dusk-900 text-white"
    >
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a touch only pauses the row, as the button below does */}
      <div
        ref={row}
        onScroll={onScroll}
        onPointerEnter={() => {
          setDrawn((before) => Math.max(before, 2));
          setLastDrawn(true);
        }}
        onPointerDown={() => setIsPlaying(false)}
        onFocus={() => setIsPlaying(false)}
        className="flex snap-x snap-mandatory overflow-x-auto overscroll-x-contain [scrollbar-width:none]"
      >
        {heroSlides.map((slide, index) => (
          <Slide
            key={slide.art}
            slide={slide}
            index={index}
            order={second === null ? undefined : (index - second + 1 + count) % count}
            isDrawn={index < drawn || (index === count - 1 && isLastDrawn)}
            isAside={isAttached && index !== selected}
          />
        ))}
      </div>

      {/* On phones in a separate row: over the image they would hide the fruit. */}
      <div className="page pointer-events-none lg:absolute lg:inset-x-0 lg:bottom-5">
        <div
          className={`pointer-events-auto -ml-2 inline-flex max-w-full flex-wrap items-center rounded-pill px-1.5 lg:bg-dusk-950/55 transition-opacity ${isAttached ? '' : 'invisible opacity-0'}`}
        >
          {heroSlides.map(({ art, headline }, index) => (
            <button
              key={art}
              type="button"
              aria-label={`Slide ${index + 1}: ${headline}`}
              aria-current={index === selected ? 'true' : undefined}
              onClick={() => show(index)}
              className="group grid h-11 min-w-8 place-items-center rounded-pill px-2"
            >
              <span className="block h-2 w-4 rounded-pill bg-white/55 transition-[width,background-color] group-hover:bg-white group-aria-[current]:w-10 group-aria-[current]:bg-ember-300 forced-colors:bg-[ButtonText] forced-colors:group-aria-[current]:bg-[Highlight]" />
            </button>
          ))}
          <button
            type="button"
            onClick={() => setIsPlaying(!isPlaying)}
            aria-label={isPlaying ? 'Pause slides' : 'Play slides'}
            className="grid size-11 place-items-center rounded-pill text-white/85 hover:text-white"
          >
            <Icon name={isPlaying ? 'pause' : 'play'} className="size-4.5" />
          </button>
        </div>
      </div>
    </section>
  );
}

function Slide({
  slide: { art, sky, headline, tagline },
  index,
  order,
  isDrawn,
  isAside,
}: {
  slide: HeroSlide;
  index: number;
  /** Position in the row. Default: the order of the markup. */
  order: number | undefined;
  isDrawn: boolean;
  isAside: boolean;
}) {
  const Headline = index === 0 ? 'h1' : 'h2';
  return (
    // biome-ignore lint/a11y/useSemanticElements: the ARIA carousel pattern requires a group with this role
    <div
      role="group"
      aria-roledescription="slide"
      aria-label={`${index + 1} of ${count}`}
      inert={isAside}
      style={{ order }}
      className={`relative flex min-w-0 flex-[0_0_100%] snap-start snap-always items-start overflow-hidden sm:items-center ${sky}`}
    >
      {isDrawn ? <Art art={art} isFirst={index === 0} /> : null}
      <div className="page relative grid min-h-[calc(9.25rem+38vw)] grid-cols-1 content-start justify-items-start gap-2.5 py-4 sm:min-h-[max(19rem,42vw)] sm:content-center max-lg:low:min-h-0 max-lg:low:gap-2 max-lg:low:py-3 lg:min-h-[min(34rem,62vh)] lg:gap-5 lg:pt-14 lg:pb-20">
        <Headline className="max-w-[6.1em] text-4xl font-extrabold wrap-normal max-sm:max-w-[min(64%,6.1em)] max-lg:low:max-w-none lg:text-hero">
          {headline}
        </Headline>
        <p className="max-w-[17.3em] font-medium text-white/92 max-sm:max-w-[52%] max-sm:text-sm max-sm:leading-snug lg:text-xl">
          {tagline}
        </p>
        <Link to="/shop" prefetch="intent" className={`${buttonStyle('ember', 'large')} mt-1`}>
          Shop Now
          <Icon name="arrow" />
        </Link>
      </div>
    </div>
  );
}

function Art({ art, isFirst }: { art: HeroSlide['art']; isFirst: boolean }) {
  const set = (crop: string, widths: number[], format: string) =>
    widths.map((width) => `/art/${art}-${crop}-${width}.${format} ${width}w`).join(', ');
  return (
    <picture className="contents">
      {(['avif', 'webp'] as const).map((format) => (
        <source
          key={format}
          media="(min-width: 640px)"
          type={`image/${format}`}
          srcSet={set('wide', [960, 1600], format)}
          sizes="100vw"
        />
      ))}
      <source type="image/avif" srcSet={set('low', [480, 720, 900], 'avif')} sizes={lowSizes} />
      <img
        src={`/art/${art}-low-900.webp`}
        srcSet={set('low', [480, 720, 900], 'webp')}
        sizes={lowSizes}
        alt=""
        width={900}
        height={760}
        decoding="async"
        fetchPriority={isFirst ? 'high' : 'low'}
        className="absolute inset-0 size-full object-cover object-bottom sm:object-[60%_66%] lg:left-auto lg:w-auto lg:mask-l-from-70% lg:mask-l-to-100%"
      />
    </picture>
  );
}
