// Exports the newsletter's subscribers for a mailing program.
import type { Staff } from '../../lib/staff.ts';
import type { CsvColumn } from '../list/export/csv.ts';
import { isAfter, type ReadPage } from '../list/use-rows.ts';
import { formatForFile } from '../ui/time/dates.ts';

interface Reader {
  id: string;
  email: string;
  created_at: string;
  confirmed_at: string | null;
}

/** Confirmed addresses, newest first; no others may be written to. */
export function readNewsletterReaders(tables: Staff['tables']): ReadPage<Reader> {
  return ({ after, limit, signal }) => {
    const confirmed = tables
      .from('newsletter_subscriptions')
      .select('id, email, created_at, confirmed_at')
      .not('confirmed_at', 'is', null);
    const next = after ? confirmed.or(isAfter(after)) : confirmed;
    return next
      .order('created_at', { ascending: false })
      .order('id', { ascending: false })
      .limit(limit)
      .abortSignal(signal);
  };
}

export const readerColumns: CsvColumn<Reader>[] = [
  { title: 'Email', value: ({ email }) => email },
  { title: 'Subscribed (Nairobi time)', value: ({ created_at }) => formatForFile(created_at) },
  { title: 'Confirmed (Nairobi time)', value: ({ confirmed_at }) => formatForFile(confirmed_at) },
];
