// The rating of a delivery: one tap, and optional words. Without scripts each button posts the form.
import { type FormEvent, useState } from 'react';
import { createStore } from '../../../supabase/store.ts';
import { Button } from '../../ui/button.tsx';
import { TextArea } from '../../ui/field.tsx';
import { useAction } from '../../ui/use-action.ts';
import { useShop } from '../layout/use-shop.ts';
import { maxRatingWords, rateOrder } from './rate-order.ts';
import type { Rating } from './tracked-order.ts';

interface RatingFormProps {
  order: { id: string; accessKey: string };
  /** As it is stored; null: not given yet. */
  rating: Rating | null;
  mayRate: boolean;
  /** Of the form that was posted without scripts. */
  problem: string | null;
}

const marks = ['Bad', 'Not good', 'All right', 'Good', 'Very good'];

export default function RatingForm({ order, rating, mayRate, problem }: RatingFormProps) {
  const { config } = useShop();
  const [given, setGiven] = useState(rating);
  const [words, setWords] = useState(rating?.words ?? '');
  const [mayQuote, setMayQuote] = useState(rating?.mayQuote ?? false);
  const [failure, setFailure] = useState(problem);
  const [isSaved, setSaved] = useState(false);
  const { isRunning, run } = useAction();

  if (!mayRate) {
    return given === null ? null : (
      <div>
        <h3 className="text-xl">Your rating</h3>
        <p className="mt-1">
          <Stars stars={given.stars} /> <span className="text-ink-soft">{given.stars} of 5. Asante!</span>
        </p>
        {given.words ? <p className="mt-1 whitespace-pre-line wrap-anywhere">{given.words}</p> : null}
      </div>
    );
  }

  function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const pressed = (event.nativeEvent as SubmitEvent).submitter as HTMLButtonElement | null;
    const stars = Number(pressed?.value);
    if (!stars) return;
    const next = { stars, words: words.trim() || null, mayQuote };
    void run(
      async () => {
        setFailure(null);
        setSaved(false);
        const refusal = navigator.onLine
          ? await rateOrder(createStore(config).tables, order, next)
          : 'You are offline. Please try again when your phone has a network.';
        setFailure(refusal);
        if (refusal !== null) return;
        setGiven(next);
        setSaved(true);
      },
      (error) => {
        console.warn('The rating could not be stored', error);
        setFailure('Something went wrong. Please try again.');
      },
    );
  }
  return (
    <form method="post" onSubmit={submit} className="grid grid-cols-1 gap-4">
      <input type="hidden" name="orderId" value={order.id} />
      <input type="hidden" name="accessKey" value={order.accessKey} />
      <fieldset className="grid gap-2">
        <legend className="mb-1 font-display text-xl font-bold">How was your delivery?</legend>
        <div className="flex max-w-sm justify-between gap-1">
          {marks.map((mark, index) => {
            const stars = index + 1;
            return (
              <button
                key={mark}
                type="submit"
                name="stars"
                value={stars}
                aria-label={`${stars} of 5: ${mark}`}
                aria-pressed={given?.stars === stars}
                aria-disabled={isRunning}
                className={`grid size-13 place-items-center rounded-md text-4xl leading-none hover:bg-paper-deep ${given && stars <= given.stars ? 'text-ember-600' : 'text-ink-faint'}`}
              >
                <span aria-hidden="true">{given && stars <= given.stars ? '★' : '☆'}</span>
              </button>
            );
          })}
        </div>
      </fieldset>
      <div role={failure ? 'alert' : 'status'} className="text-sm font-semibold empty:hidden">
        {failure ? (
          <p className="text-danger">{failure}</p>
        ) : isSaved ? (
          <p className="text-success">Asante! Our team reads it. You can change it for a day.</p>
        ) : null}
      </div>
      {given ? (
        <div className="grid max-w-xl grid-cols-1 gap-3">
          <TextArea
            label="Anything to add? (optional)"
            name="words"
            rows={3}
            maxLength={maxRatingWords}
            hint="For our team, unless you let us show it"
            value={words}
            onChange={({ target }) => setWords(target.value)}
          />
          <label className="flex min-h-11 cursor-pointer items-center gap-3 text-sm">
            <input
              type="checkbox"
              name="mayQuote"
              value="yes"
              checked={mayQuote}
              onChange={({ target }) => setMayQuote(target.checked)}
              className="size-5 shrink-0 accent-leaf-600"
            />
            <span>You may show my words on your website, with my first name and area</span>
          </label>
          <Button
            type="submit"
            name="stars"
            value={given.stars}
            tone="quiet"
            isBusy={isRunning}
            className="justify-self-start"
          >
            {isRunning ? 'Saving…' : 'Save'}
          </Button>
        </div>
      ) : null}
    </form>
  );
}

function Stars({ stars }: { stars: number }) {
  return (
    <span aria-hidden="true" className="text-xl tracking-wider">
      <span className="text-ember-600">{'★'.repeat(stars)}</span>
      <span className="text-line-strong">{'☆'.repeat(5 - stars)}</span>
    </span>
  );
}
