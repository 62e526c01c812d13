// The form of the settings. Typed values stay until saved or discarded, also if another member saves.
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { Link, type Location, useRevalidator } from 'react-router';
import { Button, buttonStyle } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { TextField } from '../../ui/field.tsx';
import { ConflictError } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { ConfirmDialog } from '../dialogs/confirm-dialog.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.ts';
import { useMember } from '../layout/use-member.tsx';
import { LimitRaise } from '../payments-check/limit-raise.tsx';
import { ImplausibleDialog } from '../prices/implausible-dialog.tsx';
import { questionsAboutFee } from '../prices/plausible-figures.ts';
import { PriceHistory } from '../prices/price-history.tsx';
import { useTypicalPrice } from '../prices/price-queries.ts';
import { usePriceUndo } from '../prices/use-price-undo.ts';
import { CardColumns } from '../ui/card-columns.tsx';
import { ChangedByOther } from './changed-by-other.tsx';
import { type Settings, writeSettings } from './settings-queries.ts';
import {
  changedSettings,
  checkSettingsForm,
  type SettingsForm as Form,
  mergedSettings,
  type SettingsField,
  type SettingsProblems,
  settingsFields,
  settingsFormOf,
  settingsLabels,
  settingsValues,
} from './settings-values.ts';

const saved = 'Settings saved successfully';

/** Classes of a button that would change nothing. */
const nothingToDo = 'cursor-not-allowed bg-line! text-ink-soft! shadow-none!';

const isAnotherScreen = (from: Location, to: Location): boolean => from.pathname !== to.pathname;

/** @param latest the current settings, which may differ from those that the member edits */
export function SettingsForm({ latest }: { latest: Settings }) {
  const { tables } = useMember().staff;
  const { revalidate } = useRevalidator();
  const queries = useQueryClient();
  // The values at the first edit, and the edited values.
  const [seen, setSeen] = useState(latest);
  const [form, setForm] = useState(() => settingsFormOf(latest));
  const [problems, setProblems] = useState<SettingsProblems>({});
  const element = useRef<HTMLFormElement>(null);
  const conflict = useRef<HTMLDivElement>(null);

  const before = settingsFormOf(seen);
  const changed = changedSettings(before, form);
  const isDirty = changed.length > 0;
  // Right after a save, data read before it is outdated. ISO times of one zone compare as texts do.
  const isOther = latest.updated_at > seen.updated_at;

  const begin = (settings: Settings, with_: Form = settingsFormOf(settings)) => {
    setSeen(settings);
    setForm(with_);
    setProblems({});
  };
  // Without edits the form shows the current values; so it does when they are what was typed: the member's own save, whose
  // answer was lost.
  const isShown = !isDirty || changedSettings(settingsFormOf(latest), form).length === 0;
  if (isOther && isShown) begin(latest);
  const isInConflict = isOther && !isShown;

  const offerPriceUndo = usePriceUndo();
  const feeChange = () => {
    const [from, to] = [seen.delivery_fee, settingsValues(form).delivery_fee];
    return from === to ? null : { productId: null, name: 'Delivery fee', from, to };
  };
  const save = useSave({
    write: () => writeSettings(tables, settingsValues(form), seen.updated_at),
    // The offer to undo a change of the fee has this text.
    success: () => (feeChange() ? '' : saved),
    failure: 'Failed to save settings',
    refresh: ['settings'],
    // The panel above the form shows both versions.
    isShownElsewhere: (error) => error instanceof ConflictError,
    onSuccess(row) {
      const change = feeChange();
      if (change) offerPriceUndo(change, saved);
      if (!row) return;
      begin(row);
      queries.setQueryData(['settings', 'row'], row);
      // Updates the shop's name in the panel itself.
      void revalidate();
    },
  });

  useEffect(() => {
    if (isInConflict) conflict.current?.focus();
  }, [isInConflict]);

  const leaving = useUnsaved(isDirty, isAnotherScreen);

  const typicalPrice = useTypicalPrice();
  const [questions, setQuestions] = useState<string[] | null>(null);
  function submit() {
    if (!isDirty || save.isPending) return;
    if (isInConflict) {
      conflict.current?.focus();
      return;
    }
    const found = checkSettingsForm(form);
    setProblems(found);
    const first = settingsFields.find((field) => found[field]);
    if (first) (element.current?.elements.namedItem(first) as HTMLElement | null)?.focus();
    else {
      const asked = questionsAboutFee(seen.delivery_fee, settingsValues(form).delivery_fee, typicalPrice);
      if (asked.length > 0) setQuestions(asked);
      else save.mutate();
    }
  }

  const field = (name: SettingsField) => ({
    name,
    label: settingsLabels[name],
    value: form[name],
    problem: problems[name],
    onChange: ({ target }: React.ChangeEvent<HTMLInputElement>) => {
      setForm((now) => ({ ...now, [name]: target.value }));
      if (problems[name]) setProblems(({ [name]: _, ...others }) => others);
    },
  });

  return (
    <>
      {isInConflict ? (
        <ChangedByOther
          ref={conflict}
          before={before}
          mine={form}
          theirs={settingsFormOf(latest)}
          onKeepMine={() => begin(latest, mergedSettings(before, form, settingsFormOf(latest)))}
          onTakeTheirs={() => begin(latest)}
        />
      ) : null}
      <ImplausibleDialog
        questions={questions}
        onCancel={() => setQuestions(null)}
        onConfirm={() => {
          setQuestions(null);
          save.mutate();
        }}
      />
      <form
        ref={element}
        noValidate
        aria-label="Settings"
        className="grid grid-cols-[minmax(0,1fr)] gap-6"
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <CardColumns>
          <Card title="Store">
            <TextField {...field('store_name')} required maxLength={200} autoComplete="off" />
          </Card>
          <Card title="Contacts" description="Shown in the header, the footer and on the contact page.">
            <div className="grid gap-4 md:grid-cols-2">
              <TextField
                {...field('support_phone')}
                required
                type="tel"
                autoComplete="off"
                hint="Customers call this number"
              />
              <TextField
                {...field('chat_phone')}
                required
                type="tel"
                autoComplete="off"
                hint="The WhatsApp number behind the chat links"
              />
              <TextField {...field('support_email')} required type="email" autoComplete="off" />
            </div>
            <h3 className="mt-6 mb-3 text-lg">Social links</h3>
            <div className="grid gap-4 md:grid-cols-2">
              <TextField {...field('instagram_url')} type="url" autoComplete="off" hint="Empty: not shown" />
              <TextField {...field('facebook_url')} type="url" autoComplete="off" hint="Empty: not shown" />
              <TextField {...field('tiktok_url')} type="url" autoComplete="off" hint="Empty: not shown" />
            </div>
          </Card>
          <Card title="Delivery and orders">
            <div className="grid gap-4 md:grid-cols-2">
              <TextField
                {...field('delivery_fee')}
                label="Delivery fee (KES)"
                required
                inputMode="decimal"
                autoComplete="off"
                hint="0 means free. It is added to every order placed from now on"
              />
              <TextField
                {...field('reservation_minutes')}
                label="Reservation (minutes)"
                required
                inputMode="numeric"
                autoComplete="off"
                hint="How long an unpaid order waits. One M-PESA prompt can extend this, to twice as long at most. It holds its drinks for five minutes longer at most"
              />
              <TextField
                {...field('payment_limit')}
                label="M-PESA limit (KES)"
                required
                inputMode="decimal"
                autoComplete="off"
                hint="The most that M-PESA takes in one payment. Larger orders are sent to your chat and phone"
              />
              <TextField
                {...field('unpaid_orders_per_phone')}
                label="Unpaid orders of one phone"
                required
                inputMode="numeric"
                autoComplete="off"
                hint="How many of one customer may wait for payment at a time"
              />
              <TextField
                {...field('reserved_share_percent')}
                label="Held before payment (%)"
                required
                inputMode="numeric"
                autoComplete="off"
                hint="Share of a product that unpaid orders can hold. Orders beyond it get their units with the M-PESA prompt"
              />
            </div>
            <PriceHistory productId={null} label="Former delivery fees" />
            <label className="mt-4 flex min-h-11 cursor-pointer items-center gap-3 text-sm font-semibold">
              <input
                type="checkbox"
                name="requires_terms_tick"
                checked={form.requires_terms_tick === 'yes'}
                onChange={({ target }) =>
                  setForm((now) => ({ ...now, requires_terms_tick: target.checked ? 'yes' : 'no' }))
                }
                className="size-5 shrink-0 accent-leaf-600"
              />
              Customers tick a box that they are 18 or older and accept our terms and privacy notice
            </label>
            <p className="text-sm text-ink-faint">
              Without it, a line above Place Order says that ordering confirms both.
            </p>
          </Card>
          <Card
            title="Messages to customers"
            description="The most we send in one day. Half of it is reserved for paid orders."
          >
            <div className="grid gap-4 md:grid-cols-2">
              <TextField
                {...field('texts_per_day')}
                required
                inputMode="numeric"
                autoComplete="off"
                hint="Each text costs money. 0 sends none"
              />
              <TextField
                {...field('mails_per_day')}
                required
                inputMode="numeric"
                autoComplete="off"
                hint="0 sends none"
              />
            </div>
          </Card>
          <Card
            title="Payment by hand"
            description="Offered to customers whose phone the prompt does not reach. You confirm the money in the order, by its receipt."
          >
            <div className="grid gap-4 md:grid-cols-2">
              <TextField
                {...field('till_number')}
                inputMode="numeric"
                autoComplete="off"
                hint="Buy Goods. Empty: not offered"
              />
              <TextField
                {...field('paybill_number')}
                inputMode="numeric"
                autoComplete="off"
                hint="Pay Bill, with the tracking number as account. Empty: not offered"
              />
            </div>
          </Card>
          <Card
            title="M-PESA"
            description="M-PESA refunds are sent from the order itself. Above the limit a colleague must approve them. A raised limit applies after a day."
          >
            <div className="grid gap-4 md:grid-cols-2">
              <TextField
                {...field('refund_approval_above')}
                label="Refund limit (KES)"
                required
                inputMode="decimal"
                autoComplete="off"
                hint="Up to this amount no approval is needed"
              />
            </div>
            <LimitRaise />
            <Link to="/admin/settings/payments" className={`${buttonStyle('quiet')} mt-4`}>
              M-PESA check
            </Link>
          </Card>
          <Card
            title="Personal data"
            description="How long the shop stores customers' data. The privacy notice quotes these times."
          >
            <div className="grid gap-4 md:grid-cols-2">
              <TextField
                {...field('order_details_months')}
                label="Keep details of orders (months)"
                required
                inputMode="numeric"
                autoComplete="off"
                hint="Name, phone, email, address and notes. The order itself stays in the books"
              />
              <TextField
                {...field('inquiries_months')}
                label="Keep inquiries (months)"
                required
                inputMode="numeric"
                autoComplete="off"
                hint="Older messages of visitors are deleted"
              />
              <TextField
                {...field('payment_messages_months')}
                label="Keep M-PESA's messages (months)"
                required
                inputMode="numeric"
                autoComplete="off"
                hint="In full, with the payer. Kenya requires records to be kept for five years after their year"
              />
            </div>
            <div className="mt-4 flex flex-wrap gap-3">
              <Link to="/admin/settings/texts" className={buttonStyle('quiet')}>
                Privacy notice, terms and FAQ
              </Link>
              <Link to="/admin/settings/customer-data" className={buttonStyle('quiet')}>
                Customer data
              </Link>
            </div>
          </Card>
        </CardColumns>
        {/* On the left: toasts appear on the right, or above. */}
        <div
          data-save-bar
          className="sticky bottom-0 z-10 -mx-4 flex max-md:bottom-[calc(3.5rem+env(safe-area-inset-bottom))] flex-wrap items-center gap-3 border-t border-line bg-paper px-4 py-3 md:mx-0 md:px-0"
        >
          {/* Not disabled without changes: disabling it after saving would lose the focus. */}
          <Button
            type="submit"
            isBusy={save.isPending}
            aria-disabled={!isDirty || save.isPending}
            className={isDirty ? '' : nothingToDo}
          >
            {save.isPending ? 'Saving...' : 'Save Settings'}
          </Button>
          <Button
            tone="quiet"
            aria-disabled={!isDirty || save.isPending}
            className={isDirty ? '' : nothingToDo}
            onClick={() => save.isPending || begin(latest)}
          >
            Discard
          </Button>
          <p role="status" className="text-sm font-semibold text-ink-soft">
            {isDirty ? 'Not saved yet' : ''}
          </p>
        </div>
      </form>
      <ConfirmDialog
        hasOwnEntry={false}
        open={leaving.isBlocked}
        title="Leave without saving?"
        text={`What you changed (${changed.map((name) => settingsLabels[name]).join(', ')}) is not saved yet.`}
        confirm="Leave without saving"
        onConfirm={() => leaving.leave()}
        onCancel={() => leaving.stay()}
      />
    </>
  );
}
