// Structured data (JSON-LD) of a page. Search engines read it from the server's document; browsers load neither the
// data nor its code.

/** @param data the data on the server; null in the browser, which keeps the server's markup */
export function DataBlock({ data }: { data: readonly object[] | null }) {
  const json = data ? JSON.stringify(data.length === 1 ? data[0] : data) : '';
  return (
    <script
      type="application/ld+json"
      suppressHydrationWarning
      // Escaped, so that the data cannot end the script element.
      dangerouslySetInnerHTML={{ __html: json.replaceAll('<', '\\u003c') }}
    />
  );
}
