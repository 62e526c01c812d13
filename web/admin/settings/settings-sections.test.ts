import { expect, test } from 'vitest';
import {
  labelOfField,
  readSection,
  searchSettings,
  sectionIds,
  sectionOf,
  settingsSections,
} from './settings-sections.ts';
import { settingsFields } from './settings-values.ts';

test('every field is in one section', () => {
  const shown = sectionIds.flatMap((id) => settingsSections[id].cards.flatMap(({ fields }) => fields));
  expect([...shown].sort()).toEqual([...settingsFields].sort());
  for (const field of settingsFields) expect(sectionIds).toContain(sectionOf(field));
});

test('the sections have the order of the index', () => {
  expect(sectionIds.map((id) => settingsSections[id].title)).toEqual([
    'Shop',
    'Delivery',
    'Payments',
    'Messages',
    'Pages',
    'Team',
    'Data',
    'Backups',
  ]);
  expect(readSection('data')).toBe('data');
  for (const text of [null, '', 'nonsense', 'toString']) expect(readSection(text)).toBeNull();
});

test.each([
  ['sms', 'SMS per day', '/admin/settings?section=messages&field=texts_per_day'],
  ['FEE', 'Delivery fee (KES)', '/admin/settings?section=delivery&field=delivery_fee'],
  ['whatsapp', 'Chat phone', '/admin/settings?section=shop&field=chat_phone'],
  ['budget text', 'SMS per day', '/admin/settings?section=messages&field=texts_per_day'],
  ['terms faq', 'Privacy notice, terms and FAQ', '/admin/settings/texts'],
  ['passkeys', 'Your account', '/admin/account'],
  ['voucher', 'Discount codes', '/admin/settings/discounts'],
  ['testimonials', 'Words of customers', '/admin/settings/quotes'],
  ['neighbourhood', 'Delivery areas', '/admin/settings/areas'],
  ['restore', 'Restore a backup', '/admin/settings?section=backups'],
])('%j leads to %s', (text, label, to) => {
  expect(searchSettings(text)).toContainEqual(expect.objectContaining({ label, to }));
});

test('names come before help texts, and nothing is found by a blank or a strange word', () => {
  expect(searchSettings('refund')[0]?.label).toBe(labelOfField('refund_approval_above'));
  expect(searchSettings(' ')).toEqual([]);
  expect(searchSettings('xyzzy')).toEqual([]);
});
