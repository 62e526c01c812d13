// Who the customer buys from: address, registration and PIN, as far as the settings have them.

export interface Seller {
  seller_address: string;
  seller_registration: string;
  kra_pin: string;
}

export const sellerColumns = 'seller_address, seller_registration, kra_pin';

/** Only what is set, in the order of reading. */
export const sellerLines = ({ seller_address, seller_registration, kra_pin }: Seller) =>
  [
    { name: 'Address', value: seller_address },
    { name: 'Business registration', value: seller_registration },
    { name: 'KRA PIN', value: kra_pin },
  ].filter(({ value }) => value !== '');
