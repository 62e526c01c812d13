// How charts look (recharts).

export const chartText = { fill: 'var(--color-ink-faint)', fontSize: 13 };

/** No animation: live changes would restart it again and again. */
export const still = { isAnimationActive: false } as const;

export const tooltipStyle = {
  cursor: { fill: 'var(--color-dusk-100)', opacity: 0.6 },
  contentStyle: {
    background: 'var(--color-card)',
    border: '1px solid var(--color-line)',
    borderRadius: '0.75rem',
    boxShadow: 'var(--shadow-md)',
    color: 'var(--color-ink)',
  },
  itemStyle: { color: 'var(--color-ink)' },
} as const;
