// Cards of different heights in two columns, where one column would leave half of the screen empty.

export function CardColumns({ children }: { children: React.ReactNode }) {
  return <div className="gap-5 xl:columns-2 [&>*]:mb-5 [&>*]:break-inside-avoid">{children}</div>;
}
