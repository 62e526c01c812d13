// The dialog of an order above the screen from which it was opened.
import { useCallback } from 'react';
import { useLocation, useNavigate } from 'react-router';
import { useDialogUrlClose } from '../dialogs/use-dialog-url-close.ts';
import { ProgressBar } from '../ui/progress-bar.tsx';
import { usePart } from '../ui/use-part.ts';
import { loadOrderDialog } from './list/order-columns.tsx';

/** The dialog of an order, whose code is loaded when someone approaches the link. */
export function OrderDetails({
  screen,
  id,
}: {
  screen: '/admin/orders' | '/admin/today';
  id: string | null;
}) {
  const navigate = useNavigate();
  const { search } = useLocation();
  const close = useDialogUrlClose(
    useCallback(
      () => void navigate({ pathname: screen, search }, { replace: true, preventScrollReset: true }),
      [navigate, screen, search],
    ),
  );
  const part = usePart(loadOrderDialog, id !== null, close);
  if (part) return <part.OrderDialog id={id} onClose={close} />;
  return id === null ? null : <ProgressBar isRunning />;
}
