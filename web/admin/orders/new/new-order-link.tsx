// Leads to the form of a new order, by a button or the key n.
import { useEffect } from 'react';
import { Link, useNavigate } from 'react-router';
import { buttonStyle } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { isSingleKey } from '../../list/use-row-keys.ts';

const to = '/admin/orders/new';

/** @param props.isShort the sign alone on a phone */
export function NewOrderLink({ className = '', isShort = false }: { className?: string; isShort?: boolean }) {
  return (
    <Link
      to={to}
      aria-keyshortcuts="n"
      className={`${buttonStyle('leaf')} px-4! whitespace-nowrap ${className}`}
    >
      <Icon name="plus" className="size-4.5" />
      <span className={isShort ? 'max-md:sr-only' : ''}>New order</span>
    </Link>
  );
}

/** @param isOn false where a press must not leave the screen */
export function useNewOrderKey(isOn: boolean): void {
  const navigate = useNavigate();
  useEffect(() => {
    if (!isOn) return;
    const listen = (event: KeyboardEvent) => {
      if (event.key !== 'n' || !isSingleKey(event)) return;
      // The key itself must not be typed into the field that takes the focus.
      event.preventDefault();
      void navigate(to);
    };
    window.addEventListener('keydown', listen);
    return () => window.removeEventListener('keydown', listen);
  }, [isOn, navigate]);
}
