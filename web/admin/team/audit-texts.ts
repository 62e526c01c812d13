// The words of the audit: what was changed, from what to what.
import { formatKes } from '../../../domain/money.ts';
import type { StaffRole } from '../../../domain/staff-rights.ts';
import { labelOfRole } from '../../../domain/staff-role-labels.ts';
import type { Database, Json } from '../../../supabase/types.ts';
import { describeDecision } from '../reconciliation/differences/difference-texts.ts';
import { type SettingsField, settingsLabels } from '../settings/settings-values.ts';

export type AuditRow = Database['public']['CompositeTypes']['audit_row'] & { id: string; created_at: string };

export const auditAreas = {
  team: 'Team',
  settings: 'Settings',
  prices: 'Prices',
  refunds: 'Refunds',
  reconciliation: 'Reconciliation',
} as const;

const kinds: Readonly<Record<string, string>> = {
  member_invited: 'Added to the team',
  member_changed: 'Member changed',
  member_removed: 'Removed from the team',
  second_factor_reset: 'Second factor reset',
  settings_changed: 'Settings changed',
  price_changed: 'Price changed',
  refund_requested: 'Refund requested',
  refund_noted: 'Refund noted',
  refund_approved: 'Refund approved',
};

export function describeKind({ area, kind }: Pick<AuditRow, 'area' | 'kind'>): string {
  if (area === 'reconciliation') return describeDecision(kind as Parameters<typeof describeDecision>[0]);
  return (kind && kinds[kind]) || (kind ?? '');
}

const inCents = new Set(['price', 'refund', 'payment_limit', 'refund_approval_above']);

const labels: Readonly<Record<string, string>> = {
  role: 'Role',
  name: 'Name',
  is_active: 'Access',
  price: 'Price',
  refund: 'Amount',
  reason: 'Reason',
  note: 'Note',
  alone: 'By the only owner',
};

const labelOfField = (field: string): string =>
  labels[field] ?? settingsLabels[field as SettingsField] ?? field.replaceAll('_', ' ');

function shown(field: string, value: Json | undefined): string {
  if (value === undefined || value === null || isEmpty(value)) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (field === 'role') return labelOfRole(value as StaffRole);
  if (typeof value === 'number') return inCents.has(field) ? formatKes(value) : String(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const entriesOf = (values: Json | null): Record<string, Json | undefined> =>
  values !== null && typeof values === 'object' && !Array.isArray(values) ? values : {};

const isEmpty = (value: Json | undefined): boolean => value === undefined || value === null || value === '';

/** Each changed value, such as "Role: Staff to Counter". */
export function describeValues({ before, after }: Pick<AuditRow, 'before' | 'after'>): string[] {
  const [from, to] = [entriesOf(before), entriesOf(after)];
  return [...new Set([...Object.keys(from), ...Object.keys(to)])]
    .filter((field) => (before !== null && after !== null) || !isEmpty(from[field] ?? to[field]))
    .map((field) => {
      const label = labelOfField(field);
      if (before === null) return `${label}: ${shown(field, to[field])}`;
      if (after === null) return `${label}: ${shown(field, from[field])}`;
      return `${label}: ${shown(field, from[field])} to ${shown(field, to[field])}`;
    });
}
