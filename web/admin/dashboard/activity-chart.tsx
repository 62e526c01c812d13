// The chart: page views as an area, orders as bars with their own scale. Loaded when there is data.
import {
  Area,
  Bar,
  CartesianGrid,
  ComposedChart,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from 'recharts';
import { chartText, still, tooltipStyle } from '../ui/chart-style.ts';
import { formatDay } from '../ui/time/nairobi-day.ts';
import type { Day } from './dashboard-queries.ts';

const wholeNumbers = { allowDecimals: false, tickLine: false, axisLine: false, tick: chartText } as const;

/** A new shop's chart begins with its first day, and shows at least a week. */
function sinceFirst(days: readonly Day[]): Day[] {
  const first = days.findIndex(({ page_views, orders }) => page_views + orders > 0);
  return days.slice(Math.max(0, Math.min(first - 1, days.length - 7)));
}

export default function ActivityChart({ days, hasViews }: { days: readonly Day[]; hasViews: boolean }) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <ComposedChart
        data={sinceFirst(days)}
        accessibilityLayer={false}
        margin={{ top: 6, right: 0, bottom: 0, left: 0 }}
        barCategoryGap="28%"
      >
        <CartesianGrid yAxisId={hasViews ? 'views' : 'orders'} vertical={false} stroke="var(--color-line)" />
        <XAxis
          dataKey="day"
          tickFormatter={formatDay}
          tick={chartText}
          tickLine={false}
          axisLine={{ stroke: 'var(--color-line-strong)' }}
          minTickGap={28}
          interval="preserveStartEnd"
        />
        {hasViews ? <YAxis yAxisId="views" width={38} {...wholeNumbers} /> : null}
        <YAxis yAxisId="orders" orientation="right" width={30} {...wholeNumbers} />
        <Tooltip {...still} {...tooltipStyle} labelFormatter={(day) => formatDay(String(day))} />
        {hasViews ? (
          <Area
            {...still}
            yAxisId="views"
            dataKey="page_views"
            name="Page views"
            type="monotone"
            stroke="var(--color-dusk-400)"
            strokeWidth={2}
            fill="var(--color-dusk-100)"
            fillOpacity={0.7}
          />
        ) : null}
        <Bar
          {...still}
          yAxisId="orders"
          dataKey="orders"
          name="Orders"
          fill="var(--color-leaf-500)"
          radius={[4, 4, 0, 0]}
          maxBarSize={22}
        />
      </ComposedChart>
    </ResponsiveContainer>
  );
}
