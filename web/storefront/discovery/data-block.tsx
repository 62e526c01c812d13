// Structured data in a page. Search engines read it from the server's document; a browser needs neither it nor its code.

/** @param data the data on the server; null in the browser, which keeps the server's markup */
export function DataBlock({ data }: { data: readonly object[] | null }) {
  const json = data ? JSON.stringify(data.length === 1 ? data[0] : data) : '';
  return (
    <script
      type="application/ld+json"
      suppressHydrationWarning
      // In which nothing can end the script.
      dangerouslySetInnerHTML={{ __html: json.replaceAll('<', '\\u003c') }}
    />
  );
}
