// A local SAML identity provider: reads our requests and signs assertions.
import { randomUUID } from 'node:crypto';
import { Constants, IdentityProvider, ServiceProvider, setSchemaValidator } from 'samlify';
import { ownKey } from './saml-test-keys.ts';

// The library requires an explicit statement that schemas are not validated.
setSchemaValidator({ validate: async () => 'not checked' });

const template = `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="{ID}" Version="2.0" IssueInstant="{Now}" Destination="{Acs}"{ResponseTo}><saml:Issuer>{Issuer}</saml:Issuer><samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status><saml:Assertion ID="{AssertionID}" Version="2.0" IssueInstant="{Now}"><saml:Issuer>{Issuer}</saml:Issuer><saml:Subject><saml:NameID Format="{NameIDFormat}">{NameID}</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData NotOnOrAfter="{End}" Recipient="{Recipient}"{ResponseTo}/></saml:SubjectConfirmation></saml:Subject><saml:Conditions NotBefore="{Start}" NotOnOrAfter="{End}"><saml:AudienceRestriction><saml:Audience>{Audience}</saml:Audience></saml:AudienceRestriction></saml:Conditions><saml:AuthnStatement AuthnInstant="{Now}"{SessionEnd}><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement><saml:AttributeStatement>{Attributes}</saml:AttributeStatement></saml:Assertion></samlp:Response>`;

export interface Answer {
  nameId?: string;
  nameIdFormat?: string;
  attributes?: Record<string, string>;
  audience?: string;
  recipient?: string;
  issuer?: string;
  /** Minutes from now. */
  start?: number;
  end?: number;
  sessionEnd?: Date;
  /** The id of the request that it answers; null without one. */
  inResponseTo?: string | null;
  signed?: 'assertion' | 'response only';
}

export interface SamlIdentityProvider {
  entityId: string;
  metadata: string;
  /** Answers a request, given as the URL of its redirect. Returns the form that a browser would post to us. */
  answer(requestUrl: string, answer?: Answer): Promise<{ SAMLResponse: string; RelayState: string }>;
}

/**
 * Creates a provider.
 * @param serviceMetadata the service provider's own metadata
 * @param key its signing key, and the key in its metadata
 */
export function samlIdentityProvider(
  entityId: string,
  serviceMetadata: string,
  key: { privateKey: string; certificate: string } = ownKey,
): SamlIdentityProvider {
  const provider = IdentityProvider({
    entityID: entityId,
    privateKey: key.privateKey,
    signingCert: key.certificate,
    requestSignatureAlgorithm: 'http://www.w3.org/2001/04/xmldsig-more#rsa-sha256',
    nameIDFormat: ['urn:oasis:names:tc:SAML:2.0:nameid-format:persistent'],
    singleSignOnService: [{ Binding: Constants.namespace.binding.redirect, Location: `${entityId}/sign-in` }],
    singleLogoutService: [
      { Binding: Constants.namespace.binding.redirect, Location: `${entityId}/sign-out` },
    ],
    loginResponseTemplate: { context: template, attributes: [] },
  });
  const service = ServiceProvider({ metadata: serviceMetadata });
  const lenient = ServiceProvider({
    metadata: serviceMetadata.replace('WantAssertionsSigned="true"', 'WantAssertionsSigned="false"'),
  });
  const acs = String(service.entityMeta.getAssertionConsumerService('post'));
  const audience = service.entityMeta.getEntityID();

  return {
    entityId,
    metadata: provider.getMetadata(),
    async answer(requestUrl, answer = {}) {
      const query = Object.fromEntries(new URL(requestUrl).searchParams);
      const request = query.SAMLRequest
        ? await provider.parseLoginRequest(service, 'redirect', { query })
        : null;
      const requested = request?.extract.request as { id?: string } | undefined;
      const inResponseTo = answer.inResponseTo === undefined ? (requested?.id ?? null) : answer.inResponseTo;
      const fill = (text: string) => {
        const id = `_${randomUUID()}`;
        const minutes = (count: number) => new Date(Date.now() + count * 60_000).toISOString();
        const values: Record<string, string> = {
          ID: id,
          AssertionID: `_${randomUUID()}`,
          Now: minutes(0),
          Start: minutes(answer.start ?? -1),
          End: minutes(answer.end ?? 5),
          Acs: acs,
          Recipient: answer.recipient ?? acs,
          Issuer: answer.issuer ?? entityId,
          Audience: answer.audience ?? audience,
          NameID: answer.nameId ?? 'jo',
          NameIDFormat: answer.nameIdFormat ?? 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
          ResponseTo: inResponseTo ? ` InResponseTo="${inResponseTo}"` : '',
          SessionEnd: answer.sessionEnd ? ` SessionNotOnOrAfter="${answer.sessionEnd.toISOString()}"` : '',
          Attributes: Object.entries(answer.attributes ?? {})
            .map(
              ([name, value]) =>
                `<saml:Attribute Name="${name}"><saml:AttributeValue>${value}</saml:AttributeValue></saml:Attribute>`,
            )
            .join(''),
        };
        return { id, context: text.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '') };
      };
      const made = await provider.createLoginResponse(
        answer.signed === 'response only' ? lenient : service,
        { extract: request?.extract ?? {} },
        'post',
        {},
        { customTagReplacement: fill },
      );
      return { SAMLResponse: made.context, RelayState: query.RelayState ?? '' };
    },
  };
}
