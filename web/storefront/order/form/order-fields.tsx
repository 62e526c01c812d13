// Customer and address: the fields of the order form, in the dialog and on the page.
import { type ReactNode, useState } from 'react';
import type { DeliveryArea, GuessedArea } from '../../../../domain/delivery-area.ts';
import { suggestEmail } from '../../../../domain/email.ts';
import { countCharacters, type OrderForm, orderFormLimits } from '../../../lib/orders/order-form.ts';
import { TextArea, TextField } from '../../../ui/field.tsx';
import { networkHint } from '../../payment/payment-parts.tsx';
import { agreementNote } from '../next-steps.ts';
import { CalloutAction } from '../order-callouts.tsx';

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
  /** Below the location. */
  mapPoint?: ReactNode;
}

export function OrderFields({ field, area, chosen, mapPoint }: OrderFieldsProps) {
  // No maxLength: the browser would silently truncate pasted directions and phone numbers.
  const limited = (name: keyof typeof orderFormLimits) => {
    const props = field(name);
    return { hint: describeLength(name, props.value ?? props.defaultValue), ...props };
  };
  const email = field('email');
  const phone = field('phone');
  const location = limited('location');
  // Fields of a form without a value are read as they are typed.
  const [typedPhone, setTypedPhone] = useState<string>();
  const note = agreementNote(chosen);
  // Not validated while the customer types.
  const [completedEmail, setCompletedEmail] = useState('');
  const suggestion = completedEmail === email.value ? suggestEmail(completedEmail.trim()) : null;
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      <div className="sm:col-span-2 low:col-span-1">
        <TextField label="Name" required autoComplete="name" {...limited('name')} />
      </div>
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
        <div role="status" className="text-sm wrap-anywhere">
          {suggestion && !email.disabled ? (
            <CalloutAction onClick={() => email.onChange?.({ target: { value: suggestion } })}>
              Did you mean {suggestion}?
            </CalloutAction>
          ) : null}
        </div>
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
      />
      <div className="empty:hidden sm:col-span-2">{area}</div>
      <div className="sm:col-span-2 low:col-span-1">
        <TextField
          label="Delivery location"
          required
          autoComplete="street-address"
          placeholder="Such as: Westlands, Mpaka Road"
          {...location}
        />
        <p role="status" className="mt-1.5 text-sm empty:hidden">
          {note ? (
            <>
              <strong>Outside Nairobi delivery takes longer.</strong> {note}
            </>
          ) : null}
        </p>
        {mapPoint}
      </div>
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
    </div>
  );
}
