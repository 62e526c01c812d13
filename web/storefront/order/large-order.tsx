// More than M-PESA takes in one payment: such orders are agreed with the seller.
import { formatKsh } from '../../../domain/money.ts';
import { ContactLinks } from '../layout/contact-links.tsx';
import { useShop } from '../layout/use-shop.ts';

export default function LargeOrder({ drinks }: { drinks: string }) {
  const { settings } = useShop();
  return (
    <>
      <strong>M-PESA takes at most {formatKsh(settings.payment_limit)} in one payment.</strong> For a party,{' '}
      <ContactLinks message={`Habari! I would like to order ${drinks}.`} />.
    </>
  );
}
