// The setting whether M-PESA accepts payments without a known order, which it validates before a payment.
import { useQuery } from '@tanstack/react-query';
import { Card } from '../../ui/card.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';

export function UnknownPayments() {
  const { tables } = useMember().staff;
  const { data: refuses, error } = useQuery({
    queryKey: ['settings', 'unknown payments'],
    queryFn: async ({ signal }) =>
      dataOf(await tables.rpc('staff_settings').abortSignal(signal)).refuses_unknown_payments,
  });
  const save = useSave({
    write: async (to: boolean) =>
      dataOf(
        await tables
          .from('store_settings')
          .update({ refuses_unknown_payments: to })
          .eq('id', true)
          .select('id'),
      ),
    success: (_, to) =>
      to ? 'Payments without an order number are refused' : 'Payments without an order number are accepted',
    failure: 'Failed to save the setting',
    refresh: ['settings'],
  });
  const isRefusing = save.isPending ? save.variables : (refuses ?? false);
  return (
    <Card title="Payments by hand">
      <label className="flex min-h-11 items-start gap-3 py-2">
        <input
          type="checkbox"
          className="mt-0.5 size-5 shrink-0 accent-leaf-600"
          checked={isRefusing}
          disabled={refuses === undefined}
          aria-busy={save.isPending || undefined}
          onChange={(event) => {
            if (!save.isPending) save.mutate(event.target.checked);
          }}
        />
        <span>
          <span className="font-semibold">
            Refuse payments without an order number, or with another amount
          </span>
          <span className="block text-sm text-ink-soft">
            Works for a paybill only, once Safaricom has activated validation for you. Without it every
            payment is accepted, and those that match no order wait here for you.
          </span>
          {error ? (
            <span role="alert" className="block text-sm font-semibold text-danger">
              The setting could not be loaded.
            </span>
          ) : null}
        </span>
      </label>
    </Card>
  );
}
