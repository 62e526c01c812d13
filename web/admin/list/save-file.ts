// Downloads a generated file.

/**
 * Downloads a text as a file named after today in Nairobi.
 * @param name such as `orders`
 * @param ending such as `csv`
 */
export function saveFile(name: string, ending: 'csv' | 'json', text: string): void {
  const type = { csv: 'text/csv', json: 'application/json' }[ending];
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = `${name}-${today()}.${ending}`;
  link.click();
  // The browser starts the download after this task.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The day in Nairobi as YYYY-MM-DD, the format of the Swedish locale. */
const today = (): string =>
  new Intl.DateTimeFormat('sv-SE', { timeZone: 'Africa/Nairobi' }).format(new Date());
