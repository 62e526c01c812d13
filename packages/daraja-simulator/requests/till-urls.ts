// Answers POST /mpesa/c2b/v1/registerurl and /v2: registers the shop's URLs.

import type { SimulatorClock } from '../ledger/clock.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { C2bVersion, SimulatorSettings } from '../settings.ts';
import { isAcceptedCallbackUrl } from './callback-url.ts';
import { badRequest, type DarajaError, drawRequestId, productMissing } from './daraja-errors.ts';
import { type Fields, fieldText } from './request-fields.ts';

const alreadyRegistered: DarajaError = {
  status: 500,
  errorCode: '500.003.1001',
  errorMessage: 'Urls are already registered',
};

export async function registerUrls(
  fields: Fields,
  version: C2bVersion,
  { settings, clock, ledger }: { settings: SimulatorSettings; clock: SimulatorClock; ledger: Ledger },
): Promise<Response | DarajaError> {
  if (version !== settings.c2bVersion) return productMissing;
  const shortcode = fieldText(fields, 'ShortCode');
  const responseType = fieldText(fields, 'ResponseType');
  const confirmationUrl = fieldText(fields, 'ConfirmationURL');
  const validationUrl = fieldText(fields, 'ValidationURL');
  if (![settings.shortcode, settings.tillNumber].includes(shortcode)) return badRequest('ShortCode');
  if (responseType !== 'Completed' && responseType !== 'Cancelled') return badRequest('ResponseType');
  if (!isAcceptedCallbackUrl(confirmationUrl)) return badRequest('ConfirmationURL');
  if (!isAcceptedCallbackUrl(validationUrl)) return badRequest('ValidationURL');
  // The sandbox allows replacing them, production does not.
  if (settings.registersUrlsOnce && ledger.urls()) return alreadyRegistered;
  await ledger.write({
    kind: 'urls registered',
    at: clock.now(),
    shortcode,
    responseType,
    confirmationUrl,
    validationUrl,
  });
  return Response.json({
    // The spelling is Daraja's.
    OriginatorCoversationID: drawRequestId(),
    ResponseCode: '0',
    ResponseDescription: 'Success',
  });
}
