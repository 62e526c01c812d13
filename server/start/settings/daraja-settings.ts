// The payment function's settings for M-PESA: the shop's own, or those of the simulator.
import {
  defaultCredentials,
  defaultMerchant,
  certificate as simulatorCertificate,
} from '@jani-juice/daraja-simulator';
import type { DarajaSettings } from '../../../supabase/functions/mobile-money/handler.ts';
import type { Config } from './config.ts';

/**
 * @param simulatorUrl where the simulator runs, if it is used
 * @throws for a hosted project, whose function has its own settings
 */
export function darajaSettings(
  mpesa: Config['mpesa'],
  queriesPerMinute: number,
  simulatorUrl: string | null,
): DarajaSettings {
  if ('isHosted' in mpesa) throw new Error('the payment function of a hosted project has its own settings');
  if (mpesa.environment === 'simulator') {
    return {
      baseUrl: simulatorUrl ?? '',
      ...defaultCredentials,
      transactionType: mpesa.transactionType,
      ...(mpesa.transactionType === 'CustomerBuyGoodsOnline' ? { partyB: defaultMerchant.tillNumber } : {}),
      initiator: {
        name: defaultMerchant.initiatorName,
        password: defaultMerchant.initiatorPassword,
        certificate: simulatorCertificate,
      },
      nominatedNumber: defaultMerchant.nominatedNumber,
      queriesPerMinute,
    };
  }
  return {
    queriesPerMinute,
    baseUrl:
      mpesa.environment === 'production' ? 'https://api.safaricom.co.ke' : 'https://sandbox.safaricom.co.ke',
    consumerKey: mpesa.consumerKey,
    consumerSecret: mpesa.consumerSecret,
    shortcode: mpesa.shortcode,
    passkey: mpesa.passkey,
    transactionType: mpesa.transactionType,
    ...(mpesa.till ? { partyB: mpesa.till } : {}),
    ...(mpesa.initiator ? { initiator: mpesa.initiator } : {}),
    ...(mpesa.nominatedNumber ? { nominatedNumber: mpesa.nominatedNumber } : {}),
  };
}
