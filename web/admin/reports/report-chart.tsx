// A chart of one figure: bars over days or hours. Loaded when there is data.
import { Bar, BarChart, CartesianGrid, ResponsiveContainer, Tooltip, XAxis, YAxis } from 'recharts';
import { chartText, still, tooltipStyle } from '../ui/chart-style.ts';

export interface Bars {
  /** What a bar is: 'Money received'. */
  name: string;
  bars: readonly { label: string; value: number }[];
  describe(value: number): string;
}

/** Such as `84k`, where there is little space. */
const short = new Intl.NumberFormat('en-KE', { notation: 'compact', maximumFractionDigits: 1 });

export default function ReportChart({ name, bars, describe }: Bars) {
  return (
    <ResponsiveContainer width="100%" height="100%">
      <BarChart
        data={[...bars]}
        accessibilityLayer={false}
        margin={{ top: 6, right: 0, bottom: 0, left: 0 }}
        barCategoryGap="20%"
      >
        <CartesianGrid vertical={false} stroke="var(--color-line)" />
        <XAxis
          dataKey="label"
          tick={chartText}
          tickLine={false}
          axisLine={{ stroke: 'var(--color-line-strong)' }}
          minTickGap={24}
          interval="preserveStartEnd"
        />
        <YAxis
          width={44}
          tickLine={false}
          axisLine={false}
          tick={chartText}
          allowDecimals={false}
          tickFormatter={(value) => short.format(Number(value))}
        />
        <Tooltip {...still} {...tooltipStyle} formatter={(value) => describe(Number(value))} />
        <Bar
          {...still}
          dataKey="value"
          name={name}
          fill="var(--color-leaf-500)"
          radius={[3, 3, 0, 0]}
          maxBarSize={28}
        />
      </BarChart>
    </ResponsiveContainer>
  );
}
