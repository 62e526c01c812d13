// The roles with what each may do.
import type { StaffRole } from '../../../domain/people/staff-rights.ts';
import { labelOfRole } from '../../../domain/people/staff-role-labels.ts';
import { Choices } from '../ui/choices.tsx';

const roles: readonly StaffRole[] = ['owner', 'staff', 'counter'];

export const describeRole: Record<StaffRole, string> = {
  owner: 'Everything, with settings, team, reconciliation and customer data.',
  staff:
    'Today, orders, products, deliveries, inquiries, messages and figures. Refunds up to the limit; above it an owner approves.',
  counter: 'Today, deliveries and cash, of open orders and the last seven days. No figures and no exports.',
};

export function RoleChoice({ value, onChoose }: { value: StaffRole; onChoose(role: StaffRole): void }) {
  return (
    <div className="grid gap-1.5">
      <Choices
        label="Role"
        options={roles.map((role) => ({ value: role, label: labelOfRole(role) }))}
        value={value}
        onChoose={onChoose}
      />
      <p role="status" className="text-sm text-ink-soft">
        {describeRole[value]}
      </p>
    </div>
  );
}
