// Loads what "Same again?" offers, and opens its dialog, which stays while the order in it is paid.
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react';
import { useShop } from '../layout/use-shop.ts';
import { loadSameAgain, type SameAgainOffer } from './same-again-offer.ts';

const importDialog = () => import('./same-again-dialog.tsx');
const SameAgainDialog = lazy(importDialog);

interface SameAgainState {
  /** Null while nothing is offered. */
  offer: SameAgainOffer | null;
  isLoading: boolean;
  open(): void;
  /** Stays when the offer ends: its order is paid in it. */
  dialog: ReactNode;
}

/** @param isWanted whether no order of this device is under way */
export function useSameAgain(isWanted: boolean): SameAgainState {
  const { config } = useShop();
  const [found, setFound] = useState<{ offer: SameAgainOffer | null } | null>(null);
  const [opened, setOpened] = useState<{ offer: SameAgainOffer; opening: number } | null>(null);
  const [isOpen, setOpen] = useState(false);

  useEffect(() => {
    if (!isWanted) return;
    let isGone = false;
    const load = () =>
      void loadSameAgain(config)
        // The form still orders it again.
        .catch(() => null)
        .then((offer) => isGone || setFound({ offer }));
    const onReturn = () => document.visibilityState === 'visible' && load();
    load();
    document.addEventListener('visibilitychange', onReturn);
    return () => {
      isGone = true;
      setFound(null);
      document.removeEventListener('visibilitychange', onReturn);
    };
  }, [config, isWanted]);

  const offer = found?.offer ?? null;
  useEffect(() => {
    if (offer) importDialog().catch(() => {});
  }, [offer]);

  return {
    offer: isWanted ? offer : null,
    isLoading: isWanted && found === null,
    open() {
      if (!offer) return;
      setOpened((before) => ({ offer, opening: (before?.opening ?? 0) + 1 }));
      setOpen(true);
    },
    dialog: opened ? (
      <Suspense fallback={null}>
        <SameAgainDialog {...opened} open={isOpen} onClose={() => setOpen(false)} />
      </Suspense>
    ) : null,
  };
}
