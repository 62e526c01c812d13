// How a customer is reached, for the menu of a row.
import type { RowAction } from '../list/row-menu-items.tsx';
import { callTo, chatTo } from '../ui/contact-link.tsx';

interface Customer {
  customer_name: string;
  customer_phone: string;
  anonymised_at: string | null;
}

/** None where the customer's data was erased. */
export const contactActions = (order: Customer): RowAction[] =>
  order.anonymised_at || !order.customer_phone
    ? []
    : [
        { label: `Call ${order.customer_name}`, href: callTo(order.customer_phone) },
        { label: 'Chat on WhatsApp', href: chatTo(order.customer_phone) },
      ];
