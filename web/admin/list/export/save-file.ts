// Downloads a generated file.
import { nairobiDay } from '../../../../domain/nairobi-time.ts';

/**
 * Downloads a content as a file.
 * @param name such as `orders`
 * @param ending such as `csv`
 * @param day the day that the content is about, as YYYY-MM-DD. Default: today in Nairobi.
 */
export function saveFile(
  name: string,
  ending: 'csv' | 'json' | 'txt',
  content: string | Blob,
  day = nairobiDay(Date.now()),
): void {
  const type = { csv: 'text/csv', json: 'application/json', txt: 'text/plain' }[ending];
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  link.download = `${name}-${day}.${ending}`;
  link.click();
  // The browser starts the download after this task.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
