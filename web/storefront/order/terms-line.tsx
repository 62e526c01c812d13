// The terms above Place Order: a line of text, or a checkbox if the shop requires it.
import { useId } from 'react';
import { Link } from 'react-router';
import { shopTextPath } from '../layout/navigation.ts';

/** Name of the checkbox in a form submitted without JavaScript. */
export const termsField = 'acceptsTerms';

interface TermsLineProps {
  /** Whether there is a checkbox (`store_settings.requires_terms_tick`). */
  isTickRequired: boolean;
  problem?: string | undefined;
  isDisabled?: boolean;
  /** If missing, the checkbox is uncontrolled, as without JavaScript. */
  isTicked?: boolean | undefined;
  onTick?: ((isTicked: boolean) => void) | undefined;
  /** Id of the checkbox's form, if the checkbox is outside of it. */
  form?: string;
}

export function TermsLine({ isTickRequired, problem, isDisabled, isTicked, onTick, form }: TermsLineProps) {
  const problemId = useId();
  // Opens a new tab, so that the typed values are not lost.
  const link = (slug: 'terms' | 'privacy', words: string) => (
    <Link
      to={shopTextPath(slug)}
      target="_blank"
      className="-my-2 inline-block py-2 font-semibold underline underline-offset-2 hover:text-ink"
    >
      {words}
    </Link>
  );
  const links = (
    <>
      {link('terms', 'terms')} and {link('privacy', 'privacy notice')}.
    </>
  );
  if (!isTickRequired) {
    return (
      <p className="text-xs text-ink-soft">
        By ordering you confirm that you are 18 or older and accept our {links}
      </p>
    );
  }
  return (
    <div className="text-sm">
      <label className="flex min-h-11 cursor-pointer items-center gap-3">
        <input
          type="checkbox"
          name={termsField}
          value="yes"
          required
          form={form}
          disabled={isDisabled}
          checked={isTicked}
          onChange={(event) => onTick?.(event.target.checked)}
          aria-invalid={problem ? true : undefined}
          aria-describedby={problem ? problemId : undefined}
          className="size-5 shrink-0 accent-leaf-600"
        />
        <span>I confirm that I am 18 or older and accept the {links}</span>
      </label>
      {problem ? (
        <p id={problemId} className="font-semibold text-danger">
          {problem}
        </p>
      ) : null}
    </div>
  );
}
