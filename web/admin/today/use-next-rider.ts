// The rider to whom a member hands the next orders.
import { useEffect, useState } from 'react';
import { type Rider, useRecentRiders } from '../deliveries/rider-queries.ts';

/** Whom this member's next orders go to: another member's choice does not change a button that is about to be pressed. */
export function useNextRider(): [rider: Rider | undefined, choose: (name: string) => void] {
  // A rider who has had no delivery yet, or whose phone or vehicle another client left out, is chosen in the dialog.
  const riders = useRecentRiders()?.filter(
    ({ last_assigned_at, phone, vehicle }) => last_assigned_at && phone && vehicle,
  );
  const [name, choose] = useState<string>();
  const newest = riders?.[0]?.name;
  useEffect(() => {
    if (newest !== undefined) choose((chosen) => chosen ?? newest);
  }, [newest]);
  return [riders?.find((rider) => rider.name === name) ?? riders?.[0], choose];
}
