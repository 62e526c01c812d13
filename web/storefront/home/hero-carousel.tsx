// The four slides at the top of the home page. The server draws all of them; scripts then take hold of that same markup,
// so the first picture, the largest thing on the page, is never drawn twice. Without scripts it is a row to swipe.
import type { EmblaCarouselType } from 'embla-carousel';
import { useEffect, useRef, useState } from 'react';
import { Link } from 'react-router';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon } from '../../ui/icons.tsx';
import { type HeroSlide, heroSlides } from './hero-slides.ts';

const slideDelay = 5000;

// A pixel less than a phone has must not cost the next larger picture.
const tallSizes = '99vw';

export function HeroCarousel() {
  const viewport = useRef<HTMLDivElement>(null);
  const embla = useRef<EmblaCarouselType | null>(null);
  const [selected, setSelected] = useState(0);
  const [isAttached, setIsAttached] = useState(false);
  const [isPlaying, setIsPlaying] = useState(false);
  // Later slides load their image shortly before they are shown, or on touch.
  const [drawn, setDrawn] = useState(1);

  useEffect(() => {
    let isGone = false;
    let timer = 0;
    const drawNeighbours = () => setDrawn((before) => Math.max(before, 2));
    async function attach() {
      const [{ default: createCarousel }, { default: autoplay }] = await Promise.all([
        import('embla-carousel'),
        import('embla-carousel-autoplay'),
      ]);
      if (isGone || !viewport.current) return;
      viewport.current.scrollLeft = 0;
      const isStill = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
      const carousel = createCarousel(viewport.current, { loop: true, duration: isStill ? 0 : 32 }, [
        autoplay({ delay: slideDelay, playOnInit: !isStill, stopOnInteraction: true, stopOnFocusIn: true }),
      ]);
      embla.current = carousel;
      carousel
        .on('select', () => {
          const now = carousel.selectedScrollSnap();
          setSelected(now);
          setDrawn((before) => Math.max(before, now + 2));
        })
        .on('autoplay:play', () => setIsPlaying(true))
        .on('autoplay:stop', () => setIsPlaying(false))
        .on('pointerDown', drawNeighbours);
      timer = window.setTimeout(drawNeighbours, slideDelay / 2);
      setIsPlaying(carousel.plugins().autoplay.isPlaying());
      setIsAttached(true);
    }
    const idle = window.requestIdleCallback ?? ((work: () => void) => window.setTimeout(work, 200));
    // Without its code, for example offline, it stays the scrollable row of the server's markup.
    const start = () => idle(() => void attach().catch(() => {}));
    if (document.readyState === 'complete') start();
    else window.addEventListener('load', start, { once: true });
    return () => {
      isGone = true;
      window.clearTimeout(timer);
      window.removeEventListener('load', start);
      embla.current?.destroy();
      embla.current = null;
    };
  }, []);

  function show(index: number) {
    setDrawn((before) => Math.max(before, index + 1));
    embla.current?.plugins().autoplay.stop();
    embla.current?.scrollTo(index);
  }

  function toggle() {
    const { autoplay } = embla.current?.plugins() ?? {};
    if (isPlaying) autoplay?.stop();
    else autoplay?.play();
  }

  return (
    <section
      aria-roledescription="carousel"
      aria-label="What we stand for"
      className="on-dusk relative bg-dusk-900 text-white"
    >
      <div
        ref={viewport}
        data-attached={isAttached || undefined}
        className="snap-x snap-mandatory overflow-x-auto [scrollbar-width:none] data-attached:snap-none data-attached:overflow-hidden"
      >
        <div className="flex touch-pan-y">
          {heroSlides.map((slide, index) => (
            <Slide
              key={slide.art}
              slide={slide}
              index={index}
              isDrawn={
                index < drawn ||
                (index === heroSlides.length - 1 && drawn > 1 && selected === 0 && isAttached)
              }
              isAside={isAttached && index !== selected}
            />
          ))}
        </div>
      </div>

      {/* On a phone in a row of their own: over the picture they would hide its fruit. */}
      <div className="page pointer-events-none py-1 lg:absolute lg:inset-x-0 lg:bottom-8 lg:py-0">
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
            onClick={toggle}
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
  isDrawn,
  isAside,
}: {
  slide: HeroSlide;
  index: number;
  isDrawn: boolean;
  isAside: boolean;
}) {
  const Headline = index === 0 ? 'h1' : 'h2';
  return (
    // biome-ignore lint/a11y/useSemanticElements: the pattern for carousels asks for a group that says it is a slide
    <div
      role="group"
      aria-roledescription="slide"
      aria-label={`${index + 1} of ${heroSlides.length}`}
      inert={isAside}
      className={`relative flex min-w-0 flex-[0_0_100%] snap-start items-start overflow-hidden lg:items-center ${sky}`}
    >
      {isDrawn ? <Art art={art} isFirst={index === 0} /> : null}
      <div className="page relative grid grid-cols-1 min-h-[calc(20rem+80vw)] content-start justify-items-start gap-4 pt-9 pb-9 sm:min-h-[calc(12rem+50vw)] lg:min-h-[min(40rem,76vh)] lg:content-center lg:gap-6 lg:py-24">
        <Headline className="max-w-[11ch] text-hero font-extrabold wrap-normal lg:max-w-[10ch]">
          {headline}
        </Headline>
        <p className="max-w-[26ch] text-lg font-medium text-white/92 lg:max-w-[27ch] lg:text-xl">{tagline}</p>
        <Link to="/shop" prefetch="intent" className={`${buttonStyle('ember', 'large')} mt-2`}>
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
      <source type="image/avif" srcSet={set('tall', [480, 720, 900], 'avif')} sizes={tallSizes} />
      <img
        src={`/art/${art}-tall-900.webp`}
        srcSet={set('tall', [480, 720, 900], 'webp')}
        sizes={tallSizes}
        alt=""
        width={900}
        height={1000}
        decoding="async"
        fetchPriority={isFirst ? 'high' : 'low'}
        className="absolute inset-x-0 bottom-0 aspect-9/10 w-full mask-t-from-75% mask-t-to-100% object-cover sm:aspect-video lg:left-auto lg:h-full lg:w-auto lg:mask-t-from-100% lg:mask-l-from-70% lg:mask-l-to-100%"
      />
    </picture>
  );
}
