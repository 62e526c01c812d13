// How deliveries went: on time, how long they took, and why goods came back, each with its file.
import type { DeliveryFailureReason } from '../../../supabase/types.ts';
import { Button } from '../../ui/button.tsx';
import { labelOfFailure } from '../status/staff-labels.ts';
import { type DeliveryLine, onTimePercent, useDeliveryReport } from './report-queries.ts';
import type { Span } from './report-span.ts';
import { type ReportColumn, ReportTable } from './report-table.tsx';

const figures: readonly ReportColumn<DeliveryLine>[] = [
  { title: 'Delivered', count: ({ delivered }) => delivered },
  { title: 'On time (%)', figure: onTimePercent },
  { title: 'Half within (min)', figure: ({ median_minutes }) => median_minutes },
  { title: '9 of 10 within (min)', figure: ({ p90_minutes }) => p90_minutes },
  { title: 'Came back', count: ({ failures }) => failures },
  { title: 'Ratings', count: ({ ratings }) => ratings },
  { title: 'Stars', figure: ({ average_stars }) => average_stars },
];

const tables = [
  {
    part: 'areas',
    title: 'Deliveries by area',
    first: 'Area',
    description:
      'Of orders paid in this time. On time is by the first promise; minutes count from the payment, while the shop is open.',
  },
  {
    part: 'hours',
    title: 'Deliveries by hour',
    first: 'Paid at',
    description: 'By the hour of the payment, in Nairobi time.',
  },
  {
    part: 'riders',
    title: 'Deliveries by rider',
    first: 'Rider',
    description: 'By the rider who had the delivery last.',
  },
] as const;

export function DeliveryTables({ span }: { span: Span }) {
  const { data, error, isFetching, refetch } = useDeliveryReport(span);
  if (!data) {
    return (
      <section
        aria-label="Deliveries"
        aria-busy={error === null}
        className="mb-4 rounded-lg border border-line bg-card p-4 shadow-sm md:p-5"
      >
        {error ? (
          <div className="flex flex-wrap items-center gap-3">
            <p className="font-semibold text-danger">The figures of deliveries could not be loaded.</p>
            <Button tone="quiet" isBusy={isFetching} onClick={() => void refetch()}>
              Try again
            </Button>
          </div>
        ) : (
          <p role="status" className="text-ink-soft">
            Loading the figures of deliveries...
          </p>
        )}
      </section>
    );
  }
  const most = Math.max(1, ...data.reasons.map(({ failures }) => failures));
  return (
    <>
      {tables.map(({ part, title, first, description }) => (
        <ReportTable
          key={part}
          title={title}
          description={description}
          name={`deliveries-by-${part}`}
          span={span}
          rows={data[part]}
          empty="No order that was paid in this time has arrived."
          columns={[{ title: first, text: ({ name }) => name }, ...figures]}
        />
      ))}
      <ReportTable
        title="Why goods came back"
        description="Of the same deliveries. A delivery can come back more than once."
        name="failed-deliveries"
        span={span}
        rows={data.reasons}
        empty="No delivery came back in this time."
        share={({ failures }) => failures / most}
        columns={[
          {
            title: 'Reason',
            text: ({ reason }) => {
              const stated = reason as DeliveryFailureReason | null;
              return stated === null ? 'No reason given' : labelOfFailure(stated);
            },
          },
          { title: 'Times', count: ({ failures }) => failures },
        ]}
      />
    </>
  );
}
