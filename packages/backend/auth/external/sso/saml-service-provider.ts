// SAML 2.0 service provider: sends requests to identity providers, and accepts signed assertions only.
import type { CacheProvider, SAML, Profile as SamlProfile } from '@node-saml/node-saml';
import { AuthError } from '../../auth-error.ts';
import type { AuthContext } from '../../context.ts';
import type { Json } from '../../rows.ts';
import type { IdentityProvider } from './saml-metadata.ts';

/** Content of a signed assertion. */
export interface Assertion {
  id: string;
  /** Expiry of the assertion. */
  expiresAt: Date;
  /** The identity provider's id of the user; null when it is transient. */
  userId: string | null;
  email: string | null;
  /** Values by an attribute's name and by its friendly name, in lower case. */
  attributes: ReadonlyMap<string, readonly string[]>;
  /** End of the session at the identity provider, if given. */
  sessionEnd: Date | null;
}

/** Tolerated clock difference in minutes. */
const clockSkew = 60_000;
const persistentName = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent';
const transientName = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient';
const mailName = 'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress';
const subjectId = 'urn:oasis:names:tc:saml:attribute:subject-id';
const mailAttributes = [
  'urn:oid:0.9.2342.19200300.100.1.3',
  'http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress',
  'http://schemas.xmlsoap.org/claims/emailaddress',
  'mail',
  'email',
];

/** Our entity id and URLs. */
function serviceProviderUrls({ settings }: Pick<AuthContext, 'settings'>) {
  const base = (settings.saml.externalUrl ?? settings.externalUrl).replace(/\/$/, '');
  return { entityId: `${base}/sso/saml/metadata`, acsUrl: `${base}/sso/saml/acs` };
}

/** Our metadata, to configure identity providers with. */
export async function ownMetadata(context: Pick<AuthContext, 'settings'>): Promise<string> {
  const { generateServiceProviderMetadata } = await import('@node-saml/node-saml');
  const { entityId, acsUrl } = serviceProviderUrls(context);
  const { privateKey } = context.settings.saml;
  const certificate = certificateIn(privateKey);
  return generateServiceProviderMetadata({
    issuer: entityId,
    callbackUrl: acsUrl,
    identifierFormat: persistentName,
    wantAssertionsSigned: true,
    ...(privateKey && certificate ? { privateKey: keyIn(privateKey), publicCerts: certificate } : {}),
  });
}

/**
 * URL of the identity provider's sign-in page.
 * @param request its id, which the response must name, and the relay state, which the response returns
 */
export async function requestUrl(
  context: Pick<AuthContext, 'settings'>,
  provider: IdentityProvider & { nameIdFormat: string | null },
  request: { id: string; relayState: string },
): Promise<string> {
  const saml = await serviceProvider(context, provider, request.id);
  return saml.getAuthorizeUrlAsync(request.relayState, undefined, {});
}

/**
 * Verifies a response of an identity provider.
 * @param requestId the request it must answer; null for an unsolicited response
 * @throws AuthError validation_failed unless it is a valid signed assertion for us
 */
export async function verifyResponse(
  context: Pick<AuthContext, 'settings'>,
  provider: IdentityProvider,
  samlResponse: string,
  requestId: string | null,
): Promise<Assertion> {
  const saml = await serviceProvider(context, { ...provider, nameIdFormat: null }, requestId);
  const { profile } = await saml.validatePostResponseAsync({ SAMLResponse: samlResponse }).catch((error) => {
    throw notValid((error as Error).message);
  });
  if (!profile) throw notValid('no assertion');
  return readAssertion(profile, provider, requestId, serviceProviderUrls(context).acsUrl);
}

async function serviceProvider(
  context: Pick<AuthContext, 'settings'>,
  provider: IdentityProvider & { nameIdFormat: string | null },
  requestId: string | null,
): Promise<SAML> {
  const { SAML, ValidateInResponseTo } = await import('@node-saml/node-saml');
  const { entityId, acsUrl } = serviceProviderUrls(context);
  const { privateKey, allowsEncryptedAssertions } = context.settings.saml;
  return new SAML({
    issuer: entityId,
    audience: entityId,
    callbackUrl: acsUrl,
    entryPoint: provider.entryPoint,
    idpIssuer: provider.entityId,
    idpCert: provider.certificates,
    wantAssertionsSigned: true,
    wantAuthnResponseSigned: false,
    acceptedClockSkewMs: clockSkew,
    disableRequestedAuthnContext: true,
    identifierFormat: provider.nameIdFormat ?? persistentName,
    signatureAlgorithm: 'sha256',
    digestAlgorithm: 'sha256',
    validateInResponseTo: requestId ? ValidateInResponseTo.always : ValidateInResponseTo.never,
    generateUniqueId: () => requestId ?? '',
    cacheProvider: onlyRequest(requestId),
    ...(privateKey ? { privateKey: keyIn(privateKey) } : {}),
    ...(privateKey && allowsEncryptedAssertions ? { decryptionPvk: keyIn(privateKey) } : {}),
  });
}

/** The library's request store, with the one request from our own table. */
function onlyRequest(requestId: string | null): CacheProvider {
  const now = new Date().toISOString();
  return {
    saveAsync: async () => null,
    getAsync: async (id) => (id === requestId ? now : null),
    removeAsync: async () => null,
  };
}

/** An element as the library reads XML: attributes, text, children by name without prefix. */
interface Element {
  $?: Record<string, string>;
  _?: string;
  [child: string]: unknown;
}

function readAssertion(
  profile: SamlProfile,
  provider: IdentityProvider,
  requestId: string | null,
  acsUrl: string,
): Assertion {
  // Read only the signed part.
  const assertion = (profile.getAssertion?.() as { Assertion?: Element } | undefined)?.Assertion;
  if (!assertion) throw notValid('no assertion');
  const issuer = children(assertion, 'Issuer')[0]?._?.trim();
  if (issuer !== provider.entityId) throw notValid('another issuer');
  const id = assertion.$?.ID ?? '';
  if (!id) throw notValid('no id');

  const confirmation = children(children(assertion, 'Subject')[0], 'SubjectConfirmation')
    .filter((one) => one.$?.Method === 'urn:oasis:names:tc:SAML:2.0:cm:bearer')
    .map((one) => children(one, 'SubjectConfirmationData')[0]?.$ ?? {})
    .find(
      (data) =>
        data.Recipient === acsUrl &&
        (requestId ? data.InResponseTo === requestId : data.InResponseTo === undefined) &&
        isAhead(data.NotOnOrAfter),
    );
  if (!confirmation) throw notValid('no subject confirmation for this place, request and time');
  const expiresAt = new Date(new Date(confirmation.NotOnOrAfter ?? '').getTime() + clockSkew);

  const attributes = new Map<string, readonly string[]>();
  for (const attribute of children(assertion, 'AttributeStatement').flatMap((one) =>
    children(one, 'Attribute'),
  )) {
    const values = children(attribute, 'AttributeValue')
      .map((value) => value._?.trim() ?? '')
      .filter((value) => value !== '' && !value.includes('\0'));
    for (const name of [attribute.$?.Name, attribute.$?.FriendlyName]) {
      if (!name) continue;
      const previous = attributes.get(name.toLowerCase()) ?? [];
      attributes.set(name.toLowerCase(), [...previous, ...values]);
    }
  }
  const { nameID = '', nameIDFormat } = profile;
  const isMail = nameIDFormat === mailName;
  const name = isMail ? nameID.trim().toLowerCase() : nameID;
  const mail = mailAttributes.flatMap((attribute) => attributes.get(attribute) ?? [])[0];
  const ends = children(assertion, 'AuthnStatement')
    .map((statement) => statement.$?.SessionNotOnOrAfter)
    .find((end) => end !== undefined && !Number.isNaN(Date.parse(end)));
  return {
    id,
    expiresAt,
    userId: attributes.get(subjectId)?.[0] ?? (nameIDFormat === transientName ? null : name || null),
    email: mail ?? (isMail ? name : null),
    attributes,
    sessionEnd: ends ? new Date(ends) : null,
  };
}

/** Mapping of attributes to a user's metadata, as configured for a provider. */
export interface AttributeMapping {
  keys?: Record<string, { name?: string; names?: string[]; default?: unknown; array?: boolean }>;
}

/** Maps an assertion's attributes to metadata. */
export function mapAttributes(
  { attributes }: Pick<Assertion, 'attributes'>,
  mapping: AttributeMapping,
): Json {
  const entries = Object.entries(mapping.keys ?? {}).map(
    ([key, { name, names = [], default: other, array }]) => {
      const found = [...(name ? [name] : []), ...names]
        .map((one) => attributes.get(one.toLowerCase()) ?? [])
        .find((values) => values.length > 0);
      return [key, found ? (array ? found : found[0]) : other] as const;
    },
  );
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

const children = (parent: Element | undefined, name: string): Element[] => {
  const found = parent?.[name];
  if (!Array.isArray(found)) return [];
  return found.map((one) => (typeof one === 'string' ? { _: one } : (one as Element)));
};

const isAhead = (moment: string | undefined) =>
  moment !== undefined && new Date(moment).getTime() + clockSkew > Date.now();

const keyIn = (pem: string): string =>
  /-----BEGIN (?:RSA )?PRIVATE KEY-----[\s\S]+?-----END (?:RSA )?PRIVATE KEY-----/.exec(pem)?.[0] ?? pem;

const certificateIn = (pem: string | null): string | null =>
  /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.exec(pem ?? '')?.[0] ?? null;

const notValid = (reason: string) =>
  new AuthError(400, 'validation_failed', `SAML Assertion is not valid ${reason}`);
