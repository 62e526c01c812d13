// Hands a file over to the browser.

/**
 * Saves a text as a download named after today in Nairobi.
 * @param name such as `orders`
 * @param ending such as `csv`
 */
export function saveFile(name: string, ending: 'csv' | 'json', text: string): void {
  const type = { csv: 'text/csv', json: 'application/json' }[ending];
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = `${name}-${today()}.${ending}`;
  link.click();
  // The browser takes the file after this turn.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The day in Nairobi as YYYY-MM-DD, which is how Swedish writes it. */
const today = (): string =>
  new Intl.DateTimeFormat('sv-SE', { timeZone: 'Africa/Nairobi' }).format(new Date());
