// Who orders and where to: the fields of the order form, in the dialog and on the page.
import type { ComponentProps } from 'react';
import type { OrderForm } from '../../../domain/order-form.ts';
import { TextField } from '../../ui/field.tsx';

type FieldProps = Omit<ComponentProps<typeof TextField>, 'label'>;

/** `field` gives what is the form's own of each: its value, and what is wrong with it. */
export function OrderFields({ field }: { field(name: keyof OrderForm): FieldProps }) {
  return (
    <div className="grid gap-4 md:grid-cols-2">
      <div className="md:col-span-2">
        <TextField label="Name" required autoComplete="name" maxLength={120} {...field('name')} />
      </div>
      <TextField
        label="Email"
        required
        type="email"
        inputMode="email"
        autoComplete="email"
        maxLength={254}
        {...field('email')}
      />
      <TextField
        label="Phone"
        required
        type="tel"
        inputMode="tel"
        autoComplete="tel"
        placeholder="0712345678"
        maxLength={20}
        {...field('phone')}
      />
      <div className="md:col-span-2">
        <TextField
          label="Delivery location"
          required
          autoComplete="street-address"
          placeholder="Estate or street, such as Westlands, Mpaka Road"
          maxLength={200}
          {...field('location')}
        />
      </div>
      <TextField label="Building name (optional)" maxLength={120} {...field('building')} />
      <TextField label="House/unit number (optional)" maxLength={60} {...field('unit')} />
    </div>
  );
}
