// A message about an event or state, shown next to its cause.

const tones = {
  success: 'border-leaf-300 bg-success-soft text-success',
  danger: 'border-danger/40 bg-danger-soft text-danger',
  info: 'border-ember-200 bg-ember-50 text-ink',
};

export function Notice({
  tone,
  title,
  children,
}: {
  tone: keyof typeof tones;
  title: string;
  children?: React.ReactNode;
}) {
  return (
    <div
      role={tone === 'danger' ? 'alert' : 'status'}
      className={`rounded-md border px-4 py-3 ${tones[tone]}`}
    >
      <p className="font-bold">{title}</p>
      {children ? <p className="text-sm">{children}</p> : null}
    </div>
  );
}
