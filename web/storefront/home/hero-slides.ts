// Texts and images of the home page's four slides.

export interface HeroSlide {
  art: 'hero-energy' | 'hero-cold' | 'hero-khat' | 'hero-flavors';
  /** Colour at the top edge of the image; on phones the background above it has the same colour. */
  sky: string;
  headline: string;
  tagline: string;
}

export const heroSlides: readonly HeroSlide[] = [
  {
    art: 'hero-energy',
    sky: 'bg-sky-energy',
    headline: 'Experience Premium Energy',
    tagline: 'Pressed fruit and fresh khat leaf. A clean lift for a long Nairobi evening.',
  },
  {
    art: 'hero-cold',
    sky: 'bg-sky-cold',
    headline: 'Fresh & Ice-Cold',
    tagline: 'From our fridge to your door in 15-60 minutes, anywhere in Nairobi.',
  },
  {
    art: 'hero-khat',
    sky: 'bg-sky-khat',
    headline: 'Premium Khat-Based Drinks',
    tagline: '100% natural ingredients from Meru & Embu.',
  },
  {
    art: 'hero-flavors',
    sky: 'bg-sky-khat',
    headline: '9 Unique Flavors',
    tagline: 'From apple mango to coconut lime: one for every kind of thirst.',
  },
];
