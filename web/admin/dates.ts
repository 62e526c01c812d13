// Dates as staff read them: the browser's own way of writing, the shop's own clock.

const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'Africa/Nairobi' });
const dateTime = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'medium',
  timeStyle: 'short',
  timeZone: 'Africa/Nairobi',
});

const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium', timeZone: 'Africa/Nairobi' });

export const formatTime = (iso: string): string => time.format(new Date(iso));
export const formatDate = (iso: string): string => date.format(new Date(iso));
export const formatDateTime = (iso: string): string => dateTime.format(new Date(iso));
