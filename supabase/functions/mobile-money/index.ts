// Entry of the function on a hosted project (Deno). Settings come from the environment: `supabase secrets set …`.
import { createMobileMoney } from './handler.ts';

const darajaUrls: Record<string, string> = {
  sandbox: 'https://sandbox.safaricom.co.ke',
  production: 'https://api.safaricom.co.ke',
};

function required(name: string): string {
  const value = Deno.env.get(name);
  if (!value) throw new Error(`${name} is not set`);
  return value;
}

const supabaseUrl = required('SUPABASE_URL');
const mpesaEnvironment = required('MPESA_ENV');
const baseUrl = Deno.env.get('MPESA_URL') ?? darajaUrls[mpesaEnvironment];
if (!baseUrl) throw new Error('MPESA_ENV is neither sandbox nor production');
const transactionType = required('MPESA_TRANSACTION_TYPE');
if (transactionType !== 'CustomerPayBillOnline' && transactionType !== 'CustomerBuyGoodsOnline') {
  throw new Error('MPESA_TRANSACTION_TYPE is neither CustomerPayBillOnline nor CustomerBuyGoodsOnline');
}
const till = Deno.env.get('MPESA_TILL');
if (transactionType === 'CustomerBuyGoodsOnline' && mpesaEnvironment === 'production' && !till) {
  throw new Error(
    'MPESA_TILL is not set: MPESA_SHORTCODE is the store number, and the money goes to the till',
  );
}
const nominatedNumber = Deno.env.get('MPESA_NOMINATED_NUMBER');
const initiatorName = Deno.env.get('MPESA_INITIATOR_NAME');

const mobileMoney = createMobileMoney({
  store: {
    url: supabaseUrl,
    // Secrets whose name begins with SUPABASE_ belong to the platform, so the shop's own key may have another name.
    secretKey: Deno.env.get('SHOP_SECRET_KEY') ?? required('SUPABASE_SERVICE_ROLE_KEY'),
  },
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
            // Here it is the text of the certificate, since a function has no files of its own.
            certificate: required('MPESA_CERTIFICATE'),
          },
        }
      : {}),
    queriesPerMinute: Number(Deno.env.get('MPESA_QUERIES_PER_MINUTE') ?? 5),
  },
  noticeBaseUrl: `${supabaseUrl}/functions/v1/mobile-money/notice`,
  log: (event) => console.warn(JSON.stringify(event)),
});

// The storefront lives on another origin than the project; nobody else's page may call.
const cors = {
  'access-control-allow-origin': required('PUBLIC_URL'),
  'access-control-allow-headers': 'authorization, x-client-info, apikey, content-type',
  'access-control-allow-methods': 'POST',
  vary: 'origin',
};

Deno.serve(async (request: Request) => {
  if (request.method === 'OPTIONS') return new Response(null, { status: 204, headers: cors });
  const response = await mobileMoney(request);
  for (const [name, value] of Object.entries(cors)) response.headers.set(name, value);
  return response;
});
