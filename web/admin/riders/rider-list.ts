// The list of riders and what staff change about it.
import { useQuery } from '@tanstack/react-query';
import { ridePath } from '../../../domain/deliveries/rider-page.ts';
import { normalisePhone } from '../../../domain/people/phone.ts';
import type { Database } from '../../../supabase/types.ts';
import { dataOf, TableProblem } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { useShop } from '../messages/use-shop.ts';

export type ListedRider = Database['public']['Functions']['list_riders']['Returns'][number];

export interface RiderForm {
  name: string;
  phone: string;
  vehicle: string;
  plate: string;
}
type RiderProblems = Partial<Record<keyof RiderForm, string>>;

export const riderLimits = { name: 80, phone: 40, vehicle: 80, plate: 20 } as const;

/** Problems by field; null when the form may be sent. */
export function checkRider({ name, phone, vehicle }: RiderForm): RiderProblems | null {
  const problems: RiderProblems = {};
  if (!name.trim()) problems.name = 'A rider needs a name';
  if (!normalisePhone(phone))
    problems.phone = 'Please enter a valid Kenyan phone number (e.g., 0712345678 or +254712345678)';
  if (!vehicle.trim()) problems.vehicle = 'A rider needs a vehicle';
  return Object.keys(problems).length > 0 ? problems : null;
}

// Below the deliveries, whose changes change the load; a rider is seen without one.
export function useRiders() {
  const { tables } = useMember().staff;
  return useQuery({
    queryKey: ['deliveries', 'all-riders'],
    queryFn: async ({ signal }) => dataOf(await tables.rpc('list_riders').abortSignal(signal)),
    refetchInterval: 60_000,
  });
}

const refresh = ['deliveries'];

/** Shown beside the phone. */
export const isPhoneTaken = (error: Error | null): boolean =>
  error instanceof TableProblem && error.details === 'rider_phone_taken';

interface RiderChange {
  /** Null: a new one. */
  rider: ListedRider | null;
  form: RiderForm;
  isActive: boolean;
}

export function useSaveRider(onSuccess?: () => void) {
  const { tables } = useMember().staff;
  return useSave({
    write: async ({ rider, form, isActive }: RiderChange) =>
      dataOf(
        await tables.rpc('save_rider', {
          ...form,
          is_active: isActive,
          ...(rider ? { rider_id: rider.id, seen_updated_at: rider.updated_at } : {}),
        }),
      ),
    success: (_, { rider, form, isActive }) =>
      !rider
        ? `${form.name.trim()} is on the list`
        : rider.is_active === isActive
          ? 'Saved'
          : isActive
            ? `${rider.name} is active again`
            : `${rider.name} is not offered any more, and has no link`,
    failure: 'Failed to save the rider',
    refresh,
    isShownElsewhere: isPhoneTaken,
    ...(onSuccess ? { onSuccess } : {}),
  });
}

/** A link that was opened. It cannot be read again. */
export interface OpenedLink {
  rider: ListedRider;
  url: string;
  expiresAt: string;
}

export function useOpenLink(onOpened: (link: OpenedLink) => void) {
  const { tables } = useMember().staff;
  const { publicUrl } = useShop();
  return useSave({
    write: async (rider: ListedRider) => dataOf(await tables.rpc('open_rider_link', { rider_id: rider.id })),
    failure: 'The link could not be opened',
    refresh,
    onSuccess(link, rider) {
      if (link?.secret && link.expires_at)
        onOpened({ rider, url: `${publicUrl}${ridePath(link.secret)}`, expiresAt: link.expires_at });
    },
  });
}

export function useRevokeLink(onSuccess: () => void) {
  const { tables } = useMember().staff;
  return useSave({
    write: async (rider: ListedRider) =>
      dataOf(await tables.rpc('revoke_rider_link', { rider_id: rider.id })),
    success: (_, { name }) => `The link of ${name} has ended`,
    failure: 'The link could not be ended',
    refresh,
    onSuccess,
  });
}
