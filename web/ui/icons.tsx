// The storefront's icons: 24 x 24, one stroke width.

const drawings = {
  search: 'M10.5 17.5a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM15.6 15.6 20.5 20.5',
  menu: 'M3.5 7h17M3.5 12h17M3.5 17h11',
  filters:
    'M3.5 7h9m6 0h2M3.5 17h2m6 0h9M15.5 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm-7 10a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Z',
  close: 'm5.5 5.5 13 13m0-13-13 13',
  arrow: 'M4 12h15m-6-6 6 6-6 6',
  truck:
    'M2.5 6.5h11.5v10H9.5m-4.5 0H2.5v-10M14 9.5h4l3.5 3.5v3.5h-2m-5 0H14M7.2 19a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4Zm10 0a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4Z',
  chat: 'M12 20.5a8.5 8.5 0 1 0-7.5-4.5L3.5 20.5l4.5-1a8.5 8.5 0 0 0 4 1ZM8.5 10.5h7m-7 3.5h4.5',
  phone:
    'M5 3.5h3.5l2 5-2.3 1.7a12 12 0 0 0 5.6 5.6l1.7-2.3 5 2V19a1.8 1.8 0 0 1-1.9 1.8C10.5 20.3 3.7 13.5 3.2 5.4A1.8 1.8 0 0 1 5 3.5Z',
  mail: 'M3.5 5.5h17v13h-17v-13Zm0 1.5 8.5 6.5L20.5 7',
  minus: 'M5 12h14',
  plus: 'M5 12h14M12 5v14',
  bell: 'M6 17v-6a6 6 0 0 1 12 0v6l1.5 1.5h-15L6 17Zm4.5 4h3',
  pause: 'M8.5 5v14m7-14v14',
  play: 'M7.5 4.5v15l12-7.5-12-7.5Z',
  leaf: 'M5 19c0-9 4-14.5 15-15 .5 10.5-4.5 16-12.5 15.5M4 21c1.5-5.5 5-9 9.5-11',
  snow: 'M12 2.5v19M3.8 7.3l16.4 9.4m0-9.4L3.8 16.7M9.5 3.8 12 6.3l2.5-2.5m-5 16.4 2.5-2.5 2.5 2.5',
  clock: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Zm0-14v5.3l3.5 2.2',
  pin: 'M12 21.5c4.5-4.8 7-8.5 7-11.5a7 7 0 1 0-14 0c0 3 2.5 6.7 7 11.5Zm0-9a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4Z',
  check: 'm4.5 12.5 5 5 10-11',
  chevron: 'm6 9.5 6 6 6-6',
  instagram:
    'M7.5 3.5h9a4 4 0 0 1 4 4v9a4 4 0 0 1-4 4h-9a4 4 0 0 1-4-4v-9a4 4 0 0 1 4-4Zm4.5 12a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7Zm4.9-8.4h.01',
  facebook: 'M14.5 21v-8h3l.5-3.5h-3.5V7.7c0-1.2.5-1.7 1.7-1.7H18V3h-2.8c-2.9 0-4.2 1.6-4.2 4.2v2.3H8V13h3v8',
  tiktok: 'M13.5 3.5v11.7a3.3 3.3 0 1 1-3.3-3.3M13.5 3.5c.4 3 2.2 4.8 5.5 5',
} as const;

export type IconName = keyof typeof drawings;

export function Icon({ name, className = 'size-5' }: { name: IconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 24 24"
      width="20"
      height="20"
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={`shrink-0 ${className}`}
    >
      <path d={drawings[name]} />
    </svg>
  );
}
