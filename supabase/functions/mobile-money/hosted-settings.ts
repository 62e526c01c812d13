// Settings of the function on a hosted project, read from its secrets (`supabase secrets set …`).
import type { MobileMoneySettings } from './settings.ts';

const darajaUrls: ReadonlyMap<string, string> = new Map([
  ['sandbox', 'https://sandbox.safaricom.co.ke'],
  ['production', 'https://api.safaricom.co.ke'],
]);

/** A secret is missing or invalid. The message has its name, not its value. */
export class WrongSecret extends Error {
  override readonly name = 'WrongSecret';
}

/**
 * Reads the settings of the function.
 * @param read returns the value of an environment variable
 * @returns the settings, and the origin of the storefront, whose pages may call the function
 * @throws WrongSecret
 */
export function readHostedSettings(read: (name: string) => string | undefined): {
  settings: Omit<MobileMoneySettings, 'log'>;
  storefrontOrigin: string;
} {
  const optional = (name: string) => read(name)?.trim() || undefined;
  const required = (name: string): string => {
    const value = optional(name);
    if (!value) throw new WrongSecret(`${name} is not set`);
    return value;
  };
  const supabaseUrl = required('SUPABASE_URL').replace(/\/+$/, '');
  const mpesaEnvironment = required('MPESA_ENV');
  const baseUrl = optional('MPESA_URL')?.replace(/\/+$/, '') ?? darajaUrls.get(mpesaEnvironment);
  if (!baseUrl) throw new WrongSecret('MPESA_ENV is neither sandbox nor production');
  const transactionType = required('MPESA_TRANSACTION_TYPE');
  if (transactionType !== 'CustomerPayBillOnline' && transactionType !== 'CustomerBuyGoodsOnline') {
    throw new WrongSecret(
      'MPESA_TRANSACTION_TYPE is neither CustomerPayBillOnline nor CustomerBuyGoodsOnline',
    );
  }
  const till = optional('MPESA_TILL');
  if (transactionType === 'CustomerBuyGoodsOnline' && mpesaEnvironment === 'production' && !till) {
    throw new WrongSecret(
      'MPESA_TILL is not set: MPESA_SHORTCODE is the store number, and the money goes to the till',
    );
  }
  const publicUrl = required('PUBLIC_URL');
  if (!URL.canParse(publicUrl)) throw new WrongSecret('PUBLIC_URL is not a URL');
  const queriesPerMinute = Number(optional('MPESA_QUERIES_PER_MINUTE') ?? 5);
  if (!Number.isInteger(queriesPerMinute) || queriesPerMinute < 1 || queriesPerMinute > 6000) {
    throw new WrongSecret('MPESA_QUERIES_PER_MINUTE is not a whole number from 1 to 6000');
  }
  const nominatedNumber = optional('MPESA_NOMINATED_NUMBER');
  const initiatorName = optional('MPESA_INITIATOR_NAME');
  const [secretKey, ...otherSecretKeys] = readSecretKeys(optional);
  if (!secretKey) throw new WrongSecret('SUPABASE_SECRET_KEYS is not set');
  return {
    settings: {
      database: { url: supabaseUrl, secretKey, otherSecretKeys },
      daraja: {
        baseUrl,
        consumerKey: required('MPESA_CONSUMER_KEY'),
        consumerSecret: required('MPESA_CONSUMER_SECRET'),
        shortcode: required('MPESA_SHORTCODE'),
        passkey: required('MPESA_PASSKEY'),
        transactionType,
        ...(till ? { partyB: till } : {}),
        ...(nominatedNumber ? { nominatedNumber } : {}),
        ...(initiatorName
          ? {
              initiator: {
                name: initiatorName,
                password: required('MPESA_INITIATOR_PASSWORD'),
                // The text of the certificate: hosted functions have no files.
                certificate: required('MPESA_CERTIFICATE'),
              },
            }
          : {}),
        queriesPerMinute,
      },
      callbackBaseUrl: `${supabaseUrl}/functions/v1/mobile-money/notice`,
    },
    storefrontOrigin: new URL(publicUrl).origin,
  };
}

/**
 * Returns the project's secret keys; the function uses the first. The platform sets SUPABASE_SECRET_KEYS (JSON: names and keys) and, until the
 * legacy keys end, SUPABASE_SERVICE_ROLE_KEY. Custom secrets cannot start with SUPABASE_: SHOP_SECRET_KEY overrides both.
 */
function readSecretKeys(optional: (name: string) => string | undefined): string[] {
  const named = parseKeys(optional('SUPABASE_SECRET_KEYS'));
  const keys = [
    optional('SHOP_SECRET_KEY'),
    named.default,
    ...Object.values(named),
    optional('SUPABASE_SERVICE_ROLE_KEY'),
  ];
  return [...new Set(keys.filter((key) => key !== undefined))];
}

function parseKeys(json: string | undefined): Record<string, string> {
  if (json === undefined) return {};
  try {
    const named: unknown = JSON.parse(json);
    if (named !== null && typeof named === 'object') {
      return Object.fromEntries(
        Object.entries(named).filter(
          (entry): entry is [string, string] => typeof entry[1] === 'string' && entry[1] !== '',
        ),
      );
    }
  } catch {
    // Reported by the error below.
  }
  throw new WrongSecret('SUPABASE_SECRET_KEYS is not a JSON object');
}
