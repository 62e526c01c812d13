// The words that customers wrote with a rating and let the shop show: staff choose which ones the home page has.
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { useSave } from '../../data/use-save.ts';
import { useMember } from '../../layout/roles/use-member.tsx';
import { describeStaffPage } from '../../layout/staff-page.ts';
import { CardList } from '../../list/card-list.tsx';
import { PageHeading } from '../../ui/page-heading.tsx';
import { Age } from '../../ui/time/age.tsx';
import type { Route } from './+types/quotes-page.ts';
import { type QuotableRating, quoteRating, useQuotableRatings } from './quote-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Words of customers');

export default function QuotesPage() {
  const ratings = useQuotableRatings();
  return (
    <div className="grid max-w-4xl grid-cols-[minmax(0,1fr)] gap-5">
      <PageHeading
        up={{ to: '/admin/settings?section=pages', name: 'Settings' }}
        heading="Words of customers"
      >
        From ratings whose customers let you show their words. The home page has the six that you chose last,
        each with first name and area.
      </PageHeading>
      <CardList
        label="Words of customers"
        list={ratings}
        empty={{
          title: 'No words to show yet',
          text: 'Customers rate a delivery on the page of their order. Words appear here once a customer ticks that you may show them.',
        }}
      >
        {(rating) => <Words key={rating.id} rating={rating} />}
      </CardList>
    </div>
  );
}

function Words({ rating }: { rating: QuotableRating }) {
  const { tables } = useMember().staff;
  const { stars, words, quoted_at, is_on_home_page, created_at, order } = rating;
  const isChosen = quoted_at !== null;
  const save = useSave({
    write: (isQuoted: boolean) => quoteRating(tables, rating, isQuoted),
    success: (_, isQuoted) =>
      isQuoted ? 'The home page shows these words' : 'The home page no longer shows these words',
    failure: 'Failed to change what the home page shows',
    refresh: ['orders'],
  });
  return (
    <li
      aria-label={`${order.customer_name}, ${order.order_number}`}
      className="grid grid-cols-1 items-start gap-x-6 gap-y-3 rounded-lg border border-line bg-card px-4 py-3 sm:grid-cols-[minmax(0,1fr)_auto] md:px-5"
    >
      <div className="min-w-0">
        <p className="whitespace-pre-line wrap-anywhere">{words}</p>
        <p className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-sm text-ink-soft">
          <span>
            {order.customer_name}, {order.area_name || order.city}
          </span>
          <span>{stars} of 5</span>
          <Age at={created_at} />
          {isChosen ? (
            <Badge tone={is_on_home_page ? 'green' : 'grey'} isSmall>
              {is_on_home_page ? 'On the home page' : 'Not among the last six'}
            </Badge>
          ) : null}
        </p>
      </div>
      <Button
        tone="quiet"
        isBusy={save.isPending}
        onClick={() => save.mutate(!isChosen)}
        aria-label={`${isChosen ? 'Take off' : 'Show'}: ${order.customer_name}, ${order.order_number}`}
      >
        {isChosen ? 'Take off' : 'Show'}
      </Button>
    </li>
  );
}
