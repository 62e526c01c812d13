// Dates as staff read them: the browser's own way of writing, the shop's own clock.

const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'Africa/Nairobi' });
const dateTime = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'medium',
  timeStyle: 'short',
  timeZone: 'Africa/Nairobi',
});

export const formatDate = (iso: string): string => date.format(new Date(iso));
export const formatDateTime = (iso: string): string => dateTime.format(new Date(iso));
