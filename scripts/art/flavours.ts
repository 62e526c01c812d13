// The nine flavours: names and the colours of their juice, sky and label.

export type FlavourSlug =
  | 'mango'
  | 'passion'
  | 'pineapple-mint'
  | 'tamarind'
  | 'hibiscus'
  | 'ginger-lemon'
  | 'watermelon'
  | 'blackcurrant'
  | 'coconut-lime';

export type Flavour = {
  slug: FlavourSlug;
  /** Words on the label, one line each. */
  words: readonly string[];
  /** Juice through glass, from lit middle to dark edge. */
  juice: { bright: string; base: string; deep: string };
  /** Sky behind, from zenith to horizon; the sun's upper and lower edge. */
  sky: { zenith: string; middle: string; horizon: string };
  sun: { high: string; low: string };
  ground: { lit: string; dark: string };
  /** Flavour colour dark enough to print on cream. */
  print: string;
  /** Bright flavour colour on a dark can or label. */
  glow: string;
};

export const FLAVOURS: readonly Flavour[] = [
  {
    slug: 'mango',
    words: ['MANGO'],
    juice: { bright: '#ffc845', base: '#f99a16', deep: '#c25a07' },
    sky: { zenith: '#43204f', middle: '#c4452f', horizon: '#ffad42' },
    sun: { high: '#ffe08a', low: '#ff9a3d' },
    ground: { lit: '#f08a30', dark: '#7a2b33' },
    print: '#a8460a',
    glow: '#ffb734',
  },
  {
    slug: 'passion',
    words: ['PASSION'],
    juice: { bright: '#ffd04a', base: '#ef9a1c', deep: '#a3480f' },
    sky: { zenith: '#2b1446', middle: '#84307f', horizon: '#f58a6a' },
    sun: { high: '#ffd58f', low: '#f6739a' },
    ground: { lit: '#b4508c', dark: '#3c1650' },
    print: '#6f2168',
    glow: '#f9a8d8',
  },
  {
    slug: 'pineapple-mint',
    words: ['PINEAPPLE', 'MINT'],
    juice: { bright: '#fff08a', base: '#f2cd2a', deep: '#b08a0c' },
    sky: { zenith: '#0e3a3f', middle: '#1f8a68', horizon: '#ffb873' },
    sun: { high: '#ffd3a0', low: '#ff8258' },
    ground: { lit: '#5aaf62', dark: '#0f4a44' },
    print: '#0f6b4a',
    glow: '#ffe15a',
  },
  {
    slug: 'tamarind',
    words: ['TAMARIND'],
    juice: { bright: '#d98a44', base: '#9c5222', deep: '#552410' },
    sky: { zenith: '#2c1530', middle: '#8a3a2e', horizon: '#eda55e' },
    sun: { high: '#ffd8a0', low: '#ef8f4c' },
    ground: { lit: '#b8683c', dark: '#48202a' },
    print: '#7a3a14',
    glow: '#f0a866',
  },
  {
    slug: 'hibiscus',
    words: ['HIBISCUS'],
    juice: { bright: '#f2476c', base: '#bd1744', deep: '#6d0a2e' },
    sky: { zenith: '#35103f', middle: '#a81f5b', horizon: '#ff9478' },
    sun: { high: '#ffd2a6', low: '#ff7f80' },
    ground: { lit: '#d04a6c', dark: '#551544' },
    print: '#a3123f',
    glow: '#ff8fa8',
  },
  {
    slug: 'ginger-lemon',
    words: ['GINGER', 'LEMON'],
    juice: { bright: '#fff2a0', base: '#f5d13c', deep: '#b98a12' },
    sky: { zenith: '#152250', middle: '#44569f', horizon: '#ffb286' },
    sun: { high: '#ffd0a6', low: '#ff8068' },
    ground: { lit: '#7a6fb8', dark: '#1c2356' },
    print: '#7d5700',
    glow: '#ffe05c',
  },
  {
    slug: 'watermelon',
    words: ['WATER', 'MELON'],
    juice: { bright: '#ff7f83', base: '#ef3f56', deep: '#a5153b' },
    sky: { zenith: '#123a45', middle: '#2b8f76', horizon: '#ffd48c' },
    sun: { high: '#fff2c2', low: '#ffbe66' },
    ground: { lit: '#5fae8c', dark: '#12424a' },
    print: '#b81f3f',
    glow: '#ff8f92',
  },
  {
    slug: 'blackcurrant',
    words: ['BLACK', 'CURRANT'],
    juice: { bright: '#8a4fc0', base: '#57267f', deep: '#2a0f48' },
    sky: { zenith: '#160f3a', middle: '#4d2f8f', horizon: '#e08ab0' },
    sun: { high: '#ffd0c0', low: '#d97fc0' },
    ground: { lit: '#7d55ae', dark: '#221650' },
    print: '#4a2078',
    glow: '#c9a2ff',
  },
  {
    slug: 'coconut-lime',
    words: ['COCONUT', 'LIME'],
    juice: { bright: '#f6ffe0', base: '#d3ea9a', deep: '#7fae3c' },
    sky: { zenith: '#0f3550', middle: '#238a8a', horizon: '#ffcf7d' },
    sun: { high: '#ffe48f', low: '#ff9f5c' },
    ground: { lit: '#7cbd6a', dark: '#12504f' },
    print: '#2f6b12',
    glow: '#d2f07a',
  },
];
