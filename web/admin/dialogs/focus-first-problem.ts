/** Focuses the first field of a form with a problem, once the problem is shown, so that screen readers read it with the field. */
export function focusFirstProblem(form: HTMLFormElement | null): void {
  requestAnimationFrame(() =>
    form?.querySelector<HTMLElement>('[aria-invalid=true], [data-problem] input')?.focus(),
  );
}
