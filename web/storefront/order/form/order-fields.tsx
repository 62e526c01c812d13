// Customer and address: the fields of the order form, in the dialog and on the page.
import { type ReactNode, useId, useState } from 'react';
import type { DeliveryArea, GuessedArea } from '../../../../domain/deliveries/delivery-area.ts';
import { suggestEmail } from '../../../../domain/people/email.ts';
import { tidyPhone } from '../../../../domain/people/phone.ts';
import { countCharacters, type OrderForm, orderFormLimits } from '../../../lib/orders/order-form.ts';
import { TextArea, TextField } from '../../../ui/field.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { networkHint } from '../../payment/payment-parts.tsx';
import { agreementNote } from '../next-steps.ts';
import { CalloutAction } from '../order-callouts.tsx';
import './order-fields.css';

/** The used length of a field, shown once little is left. */
function describeLength(name: keyof typeof orderFormLimits, text = ''): string | undefined {
  const [length, limit] = [countCharacters(text), orderFormLimits[name]];
  return length > limit * 0.8 ? `${length} of ${limit} characters` : undefined;
}

/** Shared by single-line and multi-line fields. */
interface FieldProps {
  name: string;
  value?: string;
  defaultValue?: string;
  disabled?: boolean;
  autoFocus?: boolean;
  problem?: string | undefined;
  onChange?(event: { target: { value: string } }): void;
}

interface OrderFieldsProps {
  /** Returns the value and error props of a field. */
  field(name: keyof OrderForm): FieldProps;
  /** The field of the area, above the location. */
  area: ReactNode;
  /** The chosen or recognised area. */
  chosen: GuessedArea<DeliveryArea> | null;
  /** Beside the title "You". */
  remember?: ReactNode;
  /** Beside the title "Where". */
  mapPoint?: ReactNode;
  /** Below the fields that are rarely needed. */
  discount: ReactNode;
  /** Whether a code was typed or refused. */
  hasDiscount: boolean;
}

const rarelyNeeded = ['building', 'unit', 'notes'] as const;

export function OrderFields({
  field,
  area,
  chosen,
  remember,
  mapPoint,
  discount,
  hasDiscount,
}: OrderFieldsProps) {
  // No maxLength: the browser would silently truncate pasted directions and phone numbers.
  const limited = (name: keyof typeof orderFormLimits) => {
    const props = field(name);
    return { hint: describeLength(name, props.value ?? props.defaultValue), ...props };
  };
  const email = field('email');
  const phone = field('phone');
  const location = limited('location');
  const rest = rarelyNeeded.map(field);
  // Fields of a form without a value are read as they are typed.
  const [typedPhone, setTypedPhone] = useState<string>();
  const note = agreementNote(chosen);
  // Not validated while the customer types.
  const [completedEmail, setCompletedEmail] = useState('');
  const suggestion = completedEmail === email.value ? suggestEmail(completedEmail.trim()) : null;
  return (
    <div className="order-fields">
      <div className="order-groups">
        <Group title="You" aside={remember}>
          <div data-wide>
            <TextField label="Name" required autoComplete="name" {...limited('name')} />
          </div>
          <TextField
            label="Phone"
            required
            type="tel"
            inputMode="tel"
            autoComplete="tel"
            placeholder="0712345678"
            hint={networkHint(phone.value ?? typedPhone ?? phone.defaultValue)}
            {...phone}
            onChange={(event) => {
              setTypedPhone(event.target.value);
              phone.onChange?.(event);
            }}
            onBlur={(event) => {
              // What was read from a pasted contact, where the customer can check it.
              const tidy = tidyPhone(event.target.value);
              if (tidy !== event.target.value) phone.onChange?.({ target: { value: tidy } });
            }}
          />
          <div>
            <TextField
              label="Email"
              required
              type="email"
              inputMode="email"
              autoComplete="email"
              {...email}
              onBlur={(event) => setCompletedEmail(event.target.value)}
            />
            <div role="status" className="px-4 pb-1 text-sm wrap-anywhere empty:hidden md:px-0">
              {suggestion && !email.disabled ? (
                <CalloutAction onClick={() => email.onChange?.({ target: { value: suggestion } })}>
                  Did you mean {suggestion}?
                </CalloutAction>
              ) : null}
            </div>
          </div>
        </Group>
        <Group
          title="Where"
          aside={mapPoint}
          note={
            note ? (
              <>
                <strong>Outside Nairobi delivery takes longer.</strong> {note}
              </>
            ) : null
          }
        >
          <div data-wide>{area}</div>
          <div data-wide>
            <TextField
              label="Delivery location"
              required
              autoComplete="street-address"
              placeholder="Such as: Mpaka Road"
              {...location}
            />
          </div>
        </Group>
        <Rest
          hasContent={hasDiscount || rest.some(({ value, defaultValue }) => Boolean(value ?? defaultValue))}
          hasProblem={rest.some(({ problem }) => problem !== undefined)}
        >
          <div className="grid gap-4 sm:grid-cols-2">
            <TextField label="Building name (optional)" {...limited('building')} />
            <TextField label="House/unit number (optional)" {...limited('unit')} />
            <div className="sm:col-span-2">
              <TextArea
                label="Delivery notes (optional)"
                rows={2}
                placeholder="Such as: blue gate, call on arrival"
                {...limited('notes')}
              />
            </div>
            <div className="sm:col-span-2">{discount}</div>
          </div>
        </Rest>
      </div>
    </div>
  );
}

interface GroupProps {
  title: string;
  aside?: ReactNode;
  /** Below the fields. */
  note?: ReactNode;
  children: ReactNode;
}

function Group({ title, aside, note, children }: GroupProps) {
  const id = useId();
  return (
    // biome-ignore lint/a11y/useSemanticElements: a legend cannot share its line with a button
    <div role="group" aria-labelledby={id} className="order-group">
      <div className="mb-1.5 flex flex-wrap items-center justify-between gap-x-3">
        {/* No heading: its level differs between dialog and page. */}
        <p id={id} className="font-display text-base font-bold">
          {title}
        </p>
        {aside}
      </div>
      <div className="order-group-fields">{children}</div>
      <p role="status" className="mt-1.5 text-sm empty:hidden">
        {note}
      </p>
    </div>
  );
}

interface RestProps {
  /** Opens it, once: afterwards the customer decides. */
  hasContent: boolean;
  /** Opens it. */
  hasProblem: boolean;
  children: ReactNode;
}

/** Fields that are rarely needed, behind one line. */
function Rest({ hasContent, hasProblem, children }: RestProps) {
  const [isOpen, setOpen] = useState(hasContent);
  const [hadContent, setHadContent] = useState(hasContent);
  if (hasContent !== hadContent) {
    setHadContent(hasContent);
    // "Order again", or a link with a code.
    if (hasContent) setOpen(true);
  }
  return (
    <details
      open={isOpen || hasProblem}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      className="order-rest group/rest"
    >
      <summary className="-mx-2 -my-1.5 flex min-h-11 w-fit list-none items-center gap-2 rounded-md px-2 text-sm font-semibold text-dusk-600 underline underline-offset-2 hover:text-dusk-800 [&::-webkit-details-marker]:hidden">
        Building, unit, notes, discount code
        <Icon name="chevron" className="size-4 transition-[rotate] group-open/rest:rotate-180" />
      </summary>
      <div className="pt-3">{children}</div>
    </details>
  );
}
