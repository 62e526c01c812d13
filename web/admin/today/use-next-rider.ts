// The rider to whom a member hands the next orders.
import { useEffect, useState } from 'react';
import { type Rider, useRecentRiders } from '../deliveries/rider-queries.ts';

/** Whom this member's next orders go to: another member's choice does not change a button that is about to be pressed. */
export function useNextRider(): [rider: Rider | undefined, choose: (name: string) => void] {
  // Of a rider who has had no delivery yet, the assignment is chosen in the dialog.
  const riders = useRecentRiders()?.filter(({ last_assigned_at }) => last_assigned_at);
  const [name, choose] = useState<string>();
  const newest = riders?.[0]?.name;
  useEffect(() => {
    if (newest !== undefined) choose((chosen) => chosen ?? newest);
  }, [newest]);
  return [riders?.find((rider) => rider.name === name) ?? riders?.[0], choose];
}
