// A new order for a caller, a chat or a customer in the shop (docs/product.md#orders-entered-by-staff).
import { useQueryClient } from '@tanstack/react-query';
import { type FormEvent, useCallback, useEffect, useRef, useState } from 'react';
import { Link, useNavigate, useSearchParams } from 'react-router';
import { feeIn } from '../../../../domain/deliveries/delivery-area.ts';
import { chargeCents, formatKes } from '../../../../domain/money.ts';
import { suggestEmail } from '../../../../domain/people/email.ts';
import { normalisePhone } from '../../../../domain/people/phone.ts';
import { tabStorage } from '../../../lib/browser/browser-storage.ts';
import {
  checkOrderForm,
  countCharacters,
  type OrderForm,
  type OrderFormProblem,
  orderFormLimits,
} from '../../../lib/orders/order-form.ts';
import { AreaField } from '../../../ui/area-field.tsx';
import { Button } from '../../../ui/button.tsx';
import { TextArea, TextField } from '../../../ui/field.tsx';
import { Notice } from '../../../ui/notice.tsx';
import { useAction } from '../../../ui/use-action.ts';
import { useIsOnline } from '../../../ui/use-is-online.ts';
import { Discard } from '../../dialogs/discard.tsx';
import { useMember } from '../../layout/roles/use-member.tsx';
import { describeStaffPage } from '../../layout/staff-page.ts';
import { useOrderPause } from '../../pause/pause-queries.ts';
import { useAreas } from '../../settings/areas/area-queries.ts';
import { useSettings } from '../../settings/settings-queries.ts';
import { sourceLabels } from '../../status/staff-labels.ts';
import { Choices } from '../../ui/choices.tsx';
import { payLinkKey } from '../payments/pay-link.ts';
import type { Route } from './+types/new-order-page.ts';
import {
  amountsOf,
  areaOfDraft,
  type Draft,
  type EnteredSource,
  formToSend,
  isBegun,
  problemOfLine,
  readDraft,
  storeDraft,
  withCustomer,
  withPhone,
  withSource,
} from './draft.ts';
import { DraftDiscount } from './draft-discount.tsx';
import { DrinkPicker } from './drink-picker.tsx';
import { FoundCustomer } from './found-customer.tsx';
import { placeDraft, type Refusal, useDrinksById, useKnownCustomer } from './new-order-queries.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'New order');

/** As they stand on the screen. */
const fieldsInOrder = ['phone', 'name', 'email', 'areaId', 'location', 'building', 'unit', 'notes'] as const;
const sources: readonly EnteredSource[] = ['call', 'whatsapp', 'walk_in'];

export default function NewOrderPage() {
  const { staff, id: memberId } = useMember();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const isOnline = useIsOnline();
  const [parameters] = useSearchParams();
  const [draft, setDraft] = useState(() =>
    withPhone(readDraft(tabStorage(), memberId), parameters.get('phone') ?? ''),
  );
  const [problems, setProblems] = useState<readonly Pick<OrderFormProblem, 'field' | 'text'>[]>([]);
  const [refusal, setRefusal] = useState<Refusal | null>(null);
  const [isChecked, setChecked] = useState(false);
  const [isDiscarding, setDiscarding] = useState(false);
  const { isRunning, run } = useAction();
  const formElement = useRef<HTMLFormElement>(null);
  const submitButton = useRef<HTMLButtonElement>(null);
  const pause = useOrderPause();
  const { data: settings, error: settingsError, refetch: readSettings } = useSettings();
  const found = useKnownCustomer(draft.form.phone);
  const customer = found.data;
  const drinks = useDrinksById([
    ...draft.lines.map(({ productId }) => productId),
    ...(customer?.last_orders.flatMap(({ items }) => items.flatMap(({ product_id }) => product_id ?? [])) ??
      []),
  ]);
  const areas = useAreas().data?.filter(({ is_active }) => is_active) ?? [];
  const inArea = areaOfDraft(draft, areas);
  const amounts = amountsOf(draft, drinks, settings?.delivery_fee ?? 0, inArea?.area);
  const isAboveLimit = settings !== undefined && chargeCents(amounts.total) > settings.payment_limit;

  /** Kept in the tab at once: a reload loses nothing, and the same order keeps its key. */
  const keep = useCallback(
    (next: Draft, before: Draft) => {
      storeDraft(tabStorage(), memberId, next);
      setDraft(next);
      setProblems((found) =>
        found.filter(({ field }) =>
          field === 'discountCode'
            ? next.discount === before.discount
            : field !== 'acceptsTerms' && next.form[field] === before.form[field],
        ),
      );
    },
    [memberId],
  );
  function change(next: Draft) {
    // What is being saved stays as it is shown.
    if (isRunning) return;
    keep(next, draft);
    setRefusal(null);
  }
  const number = normalisePhone(draft.form.phone);
  useEffect(() => {
    if (customer === undefined || number === null || draft.filledFor === number) return;
    keep(withCustomer(draft, number, customer), draft);
  }, [customer, number, draft, keep]);

  function focusOn(selector: string) {
    // Fields are disabled while the order is being saved.
    requestAnimationFrame(() => {
      const element = formElement.current?.querySelector<HTMLElement>(selector);
      element?.focus();
      element?.scrollIntoView({ block: 'center' });
    });
  }
  function check(): boolean {
    const wrong = checkOrderForm(
      formToSend(draft),
      false,
      draft.isCollected ? ['email', 'location'] : ['email'],
    );
    setProblems(wrong);
    setChecked(true);
    const first = fieldsInOrder.find((name) => wrong.some(({ field }) => field === name));
    if (first) focusOn(`[name=${first}]`);
    else if (draft.lines.length === 0) focusOn('[name=drinks]');
    else {
      const missing = draft.lines.find((line) => problemOfLine(line, drinks) !== null);
      if (missing) focusOn(`[data-line="${missing.productId}"] button`);
      return missing === undefined;
    }
    return false;
  }
  function submit(event: FormEvent) {
    event.preventDefault();
    if (isRunning || settings === undefined || !check()) return;
    // The fields are about to be disabled, and would lose the focus.
    submitButton.current?.focus();
    void run(place, (error) => {
      console.warn('The order could not be saved', error);
      setRefusal({ text: 'The order could not be saved. Please try again.' });
    });
  }
  async function place() {
    setRefusal(null);
    const outcome = await placeDraft(staff.tables, draft, amounts, inArea?.area ?? null);
    if ('orderId' in outcome) {
      storeDraft(tabStorage(), memberId, null);
      queries.setQueryData(payLinkKey(outcome.orderId), {
        tracking_number: outcome.trackingNumber,
        access_key: outcome.accessKey,
      });
      void queries.invalidateQueries({ queryKey: ['orders'] });
      void queries.invalidateQueries({ queryKey: ['products'] });
      // Back leads to the screen before the form, which is empty now.
      await navigate(`/admin/orders/${outcome.orderId}`, { replace: true });
      return;
    }
    setRefusal(outcome);
    // Prices, stock and the pause as they are now.
    for (const word of ['products', 'settings']) void queries.invalidateQueries({ queryKey: [word] });
    if (outcome.field) {
      // Not the draft that is sent next: the total is another one without the code.
      if (outcome.field === 'discountCode') keep({ ...draft, discount: null }, draft);
      setProblems([{ field: outcome.field, text: outcome.text }]);
      focusOn(`[name=${outcome.field}]`);
    } else if (outcome.productId) focusOn(`[data-line="${outcome.productId}"] button`);
  }

  function discard() {
    storeDraft(tabStorage(), memberId, null);
    setDraft(readDraft(null, memberId));
    setProblems([]);
    setRefusal(null);
    setChecked(false);
    setDiscarding(false);
    focusOn('[name=phone]');
  }

  const field = (name: keyof OrderForm) => ({
    name,
    value: draft.form[name],
    disabled: isRunning,
    autoComplete: 'off',
    problem: problems.find((problem) => problem.field === name)?.text,
    onChange({ target }: { target: { value: string } }) {
      change({ ...draft, form: { ...draft.form, [name]: target.value } });
    },
  });
  const limited = (name: keyof typeof orderFormLimits) => {
    const [length, limit] = [countCharacters(draft.form[name]), orderFormLimits[name]];
    return { hint: length > limit * 0.8 ? `${length} of ${limit} characters` : undefined, ...field(name) };
  };
  const suggestion = suggestEmail(draft.form.email.trim());
  const isLineRefused = refusal?.productId !== undefined;
  return (
    <form ref={formElement} onSubmit={submit} noValidate aria-labelledby="new-order" className="grid gap-4">
      <header className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <h1 id="new-order" className="text-2xl">
          New order
        </h1>
        {isBegun(draft) && !isDiscarding ? (
          <Button
            tone="quiet"
            disabled={isRunning}
            onClick={() => setDiscarding(true)}
            className="ml-auto min-h-10! px-4!"
          >
            Start again
          </Button>
        ) : null}
        {isDiscarding ? (
          <div className="basis-full">
            <Discard
              question="Discard what you entered?"
              stay="Keep it"
              onStay={() => setDiscarding(false)}
              onLeave={discard}
            />
          </div>
        ) : null}
      </header>
      {pause ? (
        <Notice tone="info" title={pause.sentence}>
          No order can be saved until orders are resumed on Today. What you enter here stays.
        </Notice>
      ) : null}
      <fieldset
        disabled={isRunning}
        className="grid min-w-0 grid-cols-[minmax(0,1fr)] items-start gap-4 lg:grid-cols-2"
      >
        <Section title="Customer">
          <TextField
            label="Phone"
            required
            autoFocus
            type="tel"
            inputMode="tel"
            placeholder="0712345678"
            onKeyDown={(event) => {
              if (event.key !== 'Enter') return;
              // The number is only the beginning: on to what is asked for next.
              event.preventDefault();
              focusOn(customer ? '[name=drinks]' : '[name=name]');
            }}
            {...field('phone')}
          />
          <FoundCustomer
            found={found}
            draft={draft}
            drinks={drinks}
            deliveryFee={feeIn(inArea?.area ?? null, settings?.delivery_fee ?? 0)}
            onChange={change}
          />
          <Choices
            label="How the order came"
            value={draft.source}
            options={sources.map((value) => ({ value, label: sourceLabels[value] }))}
            onChoose={(source) => change(withSource(draft, source))}
          />
          <div className="grid gap-3 sm:grid-cols-2">
            <TextField label="Name" required {...limited('name')} />
            <div>
              <TextField label="Email (optional)" type="email" inputMode="email" {...field('email')} />
              {suggestion ? (
                <button
                  type="button"
                  onClick={() => change({ ...draft, form: { ...draft.form, email: suggestion } })}
                  className="tap text-sm font-semibold wrap-anywhere underline"
                >
                  Did you mean {suggestion}?
                </button>
              ) : null}
            </div>
          </div>
        </Section>
        <div className="lg:row-span-2">
          <Section title="Drinks">
            <DrinkPicker
              draft={draft}
              drinks={drinks}
              refusals={new Map(refusal?.productId ? [[refusal.productId, refusal.text]] : [])}
              problem={isChecked && draft.lines.length === 0 ? 'Please choose at least one drink' : undefined}
              disabled={isRunning}
              onChange={change}
            />
            <DraftDiscount
              key={draft.key}
              terms={draft.discount}
              cents={amounts.discount}
              problem={problems.find(({ field }) => field === 'discountCode')?.text}
              disabled={isRunning}
              onChange={(discount) => change({ ...draft, discount })}
            />
          </Section>
        </div>
        <Section title="Delivery">
          <Choices
            label="Delivered or collected"
            value={draft.isCollected ? 'collected' : 'delivery'}
            options={[
              { value: 'delivery', label: 'Delivery' },
              { value: 'collected', label: 'Collected' },
            ]}
            onChoose={(chosen) => change({ ...draft, isCollected: chosen === 'collected' })}
          />
          {draft.isCollected ? (
            <p className="text-sm text-ink-soft">
              The customer takes it along at the shop: no fee and no rider.
            </p>
          ) : (
            <>
              <AreaField
                areas={areas}
                chosen={inArea}
                isGuessed={draft.form.areaId !== inArea?.area.id}
                shopFee={settings?.delivery_fee ?? 0}
                isDisabled={isRunning}
                problem={problems.find(({ field }) => field === 'areaId')?.text}
                onChoose={(areaId) => change({ ...draft, form: { ...draft.form, areaId } })}
              />
              <TextField
                label="Delivery location"
                required
                placeholder="Such as: Westlands, Mpaka Road"
                {...limited('location')}
              />
              <div className="grid gap-3 sm:grid-cols-2">
                <TextField label="Building name (optional)" {...limited('building')} />
                <TextField label="House/unit number (optional)" {...limited('unit')} />
              </div>
            </>
          )}
          <TextArea
            label={draft.isCollected ? 'Notes (optional)' : 'Delivery notes (optional)'}
            rows={2}
            placeholder="Such as: blue gate, call on arrival"
            {...limited('notes')}
          />
        </Section>
      </fieldset>
      <footer className="sticky bottom-[calc(3.5rem+env(safe-area-inset-bottom))] z-20 -mx-4 grid gap-2 border-t border-line bg-card px-4 py-2.5 shadow-[0_-4px_12px_rgb(0_0_0/0.06)] md:bottom-0 md:mx-0 md:rounded-t-lg md:border-x">
        {refusal && !refusal.field && !isLineRefused ? (
          <RefusalNotice
            refusal={refusal}
            phone={draft.form.phone}
            onAnother={() => change({ ...draft, key: crypto.randomUUID() })}
          />
        ) : null}
        {settingsError && !settings ? (
          <p role="alert" className="flex flex-wrap items-center gap-x-3 text-sm font-semibold text-danger">
            The delivery fee could not be loaded.
            <button type="button" onClick={() => void readSettings()} className="tap font-semibold underline">
              Try again
            </button>
          </p>
        ) : null}
        {isAboveLimit ? (
          <p role="alert" className="text-sm font-semibold text-danger">
            M-PESA takes at most {formatKes(settings.payment_limit)} in one payment. Please enter two orders.
          </p>
        ) : null}
        <div className="flex items-center justify-between gap-3">
          <p className="min-w-0 leading-tight">
            <output className="block text-lg font-bold tabular-nums">{formatKes(amounts.total)}</output>
            <span className="block text-xs text-ink-soft tabular-nums">
              {amounts.units === 0
                ? 'No drinks yet'
                : amounts.units === 1
                  ? '1 drink'
                  : `${amounts.units} drinks`}{' '}
              · {amounts.discount > 0 ? `${formatKes(amounts.discount)} off · ` : ''}
              {draft.isCollected
                ? 'collected'
                : inArea?.area.needs_agreement
                  ? 'delivery to be agreed'
                  : amounts.fee === 0
                    ? 'delivery free'
                    : `delivery ${formatKes(amounts.fee)}`}
            </span>
          </p>
          <Button
            ref={submitButton}
            type="submit"
            size="large"
            isBusy={isRunning}
            disabled={pause !== null || settings === undefined || isAboveLimit || !isOnline}
            className="shrink-0 px-6!"
          >
            {isRunning ? 'Saving...' : isOnline ? 'Place order' : 'Offline'}
          </Button>
        </div>
      </footer>
    </form>
  );
}

function Section({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section
      aria-label={title}
      className="grid grid-cols-[minmax(0,1fr)] gap-3 rounded-lg border border-line bg-card px-4 py-3 md:py-4"
    >
      <h2 className="font-display text-lg font-bold">{title}</h2>
      {children}
    </section>
  );
}

interface RefusalNoticeProps {
  refusal: Refusal;
  phone: string;
  /** Enters what is typed as an order of its own. */
  onAnother(): void;
}

function RefusalNotice({ refusal, phone, onAnother }: RefusalNoticeProps) {
  return (
    <div role="alert" className="text-sm text-danger">
      <p className="font-semibold">{refusal.text}</p>
      {refusal.isSavedBefore ? (
        <p className="mt-1 flex flex-wrap gap-x-4">
          <Link
            to={`/admin/orders?search=${encodeURIComponent(normalisePhone(phone) ?? phone)}`}
            className="tap font-semibold underline"
          >
            Look at it in the list
          </Link>
          <button type="button" onClick={onAnother} className="tap font-semibold underline">
            Save this as another order
          </button>
        </p>
      ) : null}
    </div>
  );
}
