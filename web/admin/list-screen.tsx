// A staff screen that lists rows: its heading, how many there are, and the newest of them.
import { useId } from 'react';

export interface Column<Row> {
  title: string;
  isNumber?: boolean;
  show(row: Row): React.ReactNode;
}

interface ListScreenProps<Row> {
  heading: string;
  subtitle: string;
  /** Above the rows. */
  card: string;
  /** What is counted, in the singular and the plural. */
  noun: readonly [string, string];
  count: number;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
}

export function ListScreen<Row extends { id: string }>({
  heading,
  subtitle,
  card,
  noun,
  count,
  rows,
  columns,
}: ListScreenProps<Row>) {
  const id = useId();
  const figure = count.toLocaleString('en-KE');
  return (
    <div className="grid gap-6">
      <header>
        <h1 className="text-3xl">{heading}</h1>
        <p className="mt-1 text-ink-soft">{subtitle}</p>
      </header>
      <div className="overflow-hidden rounded-lg border border-line bg-card shadow-sm">
        <header className="flex flex-wrap items-baseline justify-between gap-x-4 px-5 pt-5 pb-4">
          <h2 id={id} className="text-xl">
            {card}
          </h2>
          <p className="text-sm text-ink-soft tabular-nums">
            {figure} {noun[count === 1 ? 0 : 1]}
            {count > rows.length ? `, the newest ${rows.length} shown` : ''}
          </p>
        </header>
        {rows.length === 0 ? (
          <p className="border-t border-line px-5 py-10 text-center text-ink-soft">No {noun[1]} yet.</p>
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
          <section aria-labelledby={id} tabIndex={0} className="overflow-x-auto">
            <table className="w-full min-w-[40rem] text-left text-sm">
              <thead>
                <tr className="bg-paper-deep">
                  {columns.map(({ title, isNumber }) => (
                    <th
                      key={title}
                      scope="col"
                      className={`px-5 py-2.5 font-semibold whitespace-nowrap text-ink-soft ${isNumber ? 'text-right' : ''}`}
                    >
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={row.id} className="border-t border-line">
                    {columns.map(({ title, isNumber, show }) => (
                      <td
                        key={title}
                        className={`px-5 py-3 align-top ${isNumber ? 'text-right whitespace-nowrap tabular-nums' : ''}`}
                      >
                        {show(row)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        )}
      </div>
    </div>
  );
}
