// Icons of the staff area. Separate, so that visitors do not load them.

const drawings = {
  today: 'M6.5 4v3m11-3v3M4 6.5h16v13H4zm0 4h16m-11.5 5 2.2 2.2 4.6-4.7',
  dashboard: 'M4 4.5h6.5v7H4zM13.5 4.5H20V9h-6.5zM13.5 12.5H20v7h-6.5zM4 15h6.5v4.5H4z',
  bottle:
    'M10 3h4v3.5c0 1.5 2.5 2 2.5 5V20a1 1 0 0 1-1 1h-7a1 1 0 0 1-1-1v-8.5c0-3 2.5-3.5 2.5-5V3ZM7.5 13h9',
  receipt: 'M6 3.5h12v17l-2.4-1.6L13.2 20.5 12 19.7l-1.2.8-2.4-1.6L6 20.5v-17ZM9.5 8.5h5m-5 4h5',
  scooter:
    'M6.5 19.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm11 0a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM9 17h5.5c0-3 1-5 2.5-5.5L15 4.5h-2.5M4 11.5h6.5V17',
  inbox: 'M4 13.5 6.5 5h11L20 13.5v6H4v-6Zm0 0h4.5l1.5 2.5h4l1.5-2.5H20',
  message: 'M4 5h16v11.5h-8.5L7 20.5v-4H4V5Zm4 4.5h8m-8 3.5h5',
  note: 'M5 4h14v11l-5 5H5zM19 15h-5v5M8.5 8.5h7m-7 3.5h4',
  scales:
    'M12 4v16m-4 0h8M5 7.5h14M5 7.5l-2.5 6a2.8 2.8 0 0 0 5 0L5 7.5Zm14 0-2.5 6a2.8 2.8 0 0 0 5 0l-2.5-6Z',
  sidebar: 'M4 5h16v14H4zM9.5 5v14',
  menu: 'M4 6.5h16M4 12h16M4 17.5h16',
  more: 'M5.5 12h.01M12 12h.01M18.5 12h.01',
  account: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm-7.5 8.5c.8-3.6 3.8-5.5 7.5-5.5s6.7 1.9 7.5 5.5',
  people: 'M9 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm-6 8c1-7 11-7 12 0m1-16a4 4 0 0 1 0 8m2 3c2 .5 3 2 3 5',
  image: 'M4 5h16v14H4zM4 16l4.5-4.5 4 4 3-3L20 17M15.5 10a1.3 1.3 0 1 0 0-2.6 1.3 1.3 0 0 0 0 2.6Z',
  pencil: 'm4.5 19.5 1-4.5L16 4.5l3.5 3.5L9 18.5l-4.5 1ZM13.5 7l3.5 3.5',
  bin: 'M4.5 6.5h15M9 6.5V4h6v2.5m-8.5 0 1 14h9l1-14M10.2 10.5v6m3.6-6v6',
  leave: 'M10 4.5H5v15h5M10 12h10m-4-4 4 4-4 4',
  settings:
    'M4 7.5h9m5 0h2M4 16.5h2m5 0h9M15.5 10a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Zm-7 9a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5Z',
  coins:
    'M9 10.5c3 0 5.5-1.2 5.5-2.75S12 5 9 5 3.5 6.2 3.5 7.75 6 10.5 9 10.5Zm-5.5-2.75v8.5C3.5 17.8 6 19 9 19c1 0 2-.1 2.8-.4M3.5 12c0 1.5 2.5 2.75 5.5 2.75M14.5 7.75V10M16 20a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Z',
  chart: 'M4.5 20v-8h3.5v8m2.25 0V4h3.5v16m2.25 0v-11h3.5v11M3 20h18',
  bell: 'M6 16.5V11a6 6 0 0 1 12 0v5.5l1.5 1.5h-15L6 16.5ZM10 20.5h4',
  'bell-off': 'M6 16.5V11c0-1 .2-1.9.6-2.7M9 5.8a6 6 0 0 1 9 5.2v4M4.5 18H17M10 20.5h4M4 4l16 16',
  key: 'M8.5 15.5a4 4 0 1 0 0-8 4 4 0 0 0 0 8Zm4-4H21v3.5M17 11.5v3',
} as const;

export type StaffIconName = keyof typeof drawings;

export function StaffIcon({ name, className = 'size-5' }: { name: StaffIconName; className?: string }) {
  return (
    <svg
      viewBox="0 0 24 24"
      width="20"
      height="20"
      aria-hidden="true"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      className={`shrink-0 ${className}`}
    >
      <path d={drawings[name]} />
    </svg>
  );
}
