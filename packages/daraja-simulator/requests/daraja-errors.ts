// Daraja's error body, and errors that several endpoints return.
import { randomBytes } from 'node:crypto';

export type DarajaError = {
  status: 400 | 401 | 403 | 404 | 405 | 500;
  errorCode: string;
  errorMessage: string;
};

export const invalidAccessToken: DarajaError = {
  status: 404,
  errorCode: '404.001.03',
  errorMessage: 'Invalid Access Token',
};
export const invalidAuthenticationHeader: DarajaError = {
  status: 404,
  errorCode: '404.001.04',
  errorMessage: 'Invalid Authentication Header',
};
export const resourceNotFound: DarajaError = {
  status: 404,
  errorCode: '404.001.01',
  errorMessage: 'Resource not found',
};
export const methodNotAllowed: DarajaError = {
  status: 405,
  errorCode: '405.001',
  errorMessage: 'Method Not Allowed',
};
export const invalidPayload: DarajaError = {
  status: 400,
  errorCode: '400.002.05',
  errorMessage: 'Invalid Request Payload',
};

/** 400.002.02 with the name of the invalid field. */
export function badRequest(field: string): DarajaError {
  return { status: 400, errorCode: '400.002.02', errorMessage: `Bad Request - Invalid ${field}` };
}

/** 500.001.1001, which Daraja uses for at least five different things. */
export function noAnswer(errorMessage: string): DarajaError {
  return { status: 500, errorCode: '500.001.1001', errorMessage };
}

export const subscriberLocked = noAnswer(
  'Unable to lock subscriber, a transaction is already in process for the current subscriber',
);

export const productMissing: DarajaError = {
  status: 401,
  errorCode: '401.003.01',
  errorMessage: 'Error Occurred - Invalid Access Token - Invalid API call as no apiproduct match found',
};

/** Refusals whose cause is the merchant's settings or app, for injected faults. */
export const merchantRefusals = {
  'callback-url': badRequest('CallBackURL'),
  shortcode: badRequest('BusinessShortCode'),
  till: badRequest('PartyB'),
  passkey: noAnswer('Wrong credentials'),
  merchant: noAnswer('Merchant does not exist'),
  'access-token': invalidAccessToken,
  'authentication-header': invalidAuthenticationHeader,
  product: productMissing,
  resource: resourceNotFound,
  payload: invalidPayload,
  forbidden: { status: 403, errorCode: '403.001.01', errorMessage: 'Forbidden' },
  undocumented: { status: 400, errorCode: '400.999.99', errorMessage: 'Request rejected' },
} as const satisfies Record<string, DarajaError>;
export type MerchantRefusal = keyof typeof merchantRefusals;

/** A request id in Daraja's shape: `2654-4b64-97ff-b827b542881d3130`. */
export function drawRequestId(): string {
  return randomBytes(14)
    .toString('hex')
    .replace(/^(.{4})(.{4})(.{4})/, '$1-$2-$3-');
}

export function errorResponse(error: DarajaError): Response {
  const { status, errorCode, errorMessage } = error;
  return Response.json({ requestId: drawRequestId(), errorCode, errorMessage }, { status });
}
