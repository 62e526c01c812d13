// The bar at the top of the window while the next screen, or a part of this one, is loading.

export function ProgressBar({ isRunning }: { isRunning: boolean }) {
  return (
    <div
      aria-hidden="true"
      data-loading={isRunning || undefined}
      className="page-progress pointer-events-none fixed inset-x-0 top-0 z-50 h-0.75 origin-left bg-ember-400"
    />
  );
}
