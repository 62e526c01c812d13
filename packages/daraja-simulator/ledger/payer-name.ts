// Payer names, derived from the phone number.

const firstNames = [
  'Wanjiru',
  'Otieno',
  'Achieng',
  'Kiprop',
  'Njeri',
  'Mwangi',
  'Amina',
  'Barasa',
  'Chebet',
  'Hassan',
];
const lastNames = [
  'Kamau',
  'Odhiambo',
  'Mutua',
  'Koech',
  'Wafula',
  'Maina',
  'Abdi',
  'Njoroge',
  'Atieno',
  'Kariuki',
];

/** @param phone 254 and nine digits */
export function payerNameOf(phone: string): string {
  const digits = Number(phone.slice(-4)) || 0;
  return `${firstNames[digits % 10]} ${lastNames[Math.floor(digits / 10) % 10]}`;
}
