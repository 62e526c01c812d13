// Parses the metadata of an identity provider (SAML 2.0): entity id, sign-in URL, signing certificates.
import { AuthError, invalid } from '../../auth-error.ts';
import type { Fetch } from '../public-fetch.ts';

export interface IdentityProvider {
  entityId: string;
  /** Sign-in URL of the redirect binding. */
  entryPoint: string;
  /** Base64 DER, one or more. */
  certificates: string[];
}

const metadataSpace = 'urn:oasis:names:tc:SAML:2.0:metadata';
const signatureSpace = 'http://www.w3.org/2000/09/xmldsig#';
const redirectBinding = 'urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect';
const maxMetadataBytes = 1_048_576;

/**
 * Parses metadata.
 * @throws AuthError validation_failed when it does not describe exactly one usable identity provider
 */
export async function parseMetadata(xml: string): Promise<IdentityProvider> {
  // A DOCTYPE could define entities, which metadata does not need.
  if (/<!DOCTYPE/i.test(xml)) throw invalid('SAML Metadata must not have a document type');
  const { DOMParser } = await import('@xmldom/xmldom');
  const fail = () => {
    throw invalid('SAML Metadata is not valid XML');
  };
  const parser = new DOMParser({ errorHandler: { warning: () => {}, error: fail, fatalError: fail } });
  const root = parser.parseFromString(xml, 'text/xml')?.documentElement;
  if (root?.namespaceURI !== metadataSpace || root.localName !== 'EntityDescriptor') {
    throw invalid('SAML Metadata is not valid XML');
  }
  const entityId = root.getAttribute('entityID') ?? '';
  if (!entityId) throw invalid('SAML Metadata does not contain an EntityID');
  const descriptors = [...elements(root, metadataSpace, 'IDPSSODescriptor')];
  const [descriptor] = descriptors;
  if (!descriptor) throw invalid('SAML Metadata does not contain any IDPSSODescriptor');
  if (descriptors.length > 1) throw invalid('SAML Metadata contains multiple IDPSSODescriptors');

  const certificates = elements(descriptor, metadataSpace, 'KeyDescriptor')
    .filter((key) => key.getAttribute('use') !== 'encryption')
    .flatMap((key) => elements(key, signatureSpace, 'X509Certificate'))
    .map((certificate) => (certificate.textContent ?? '').replace(/\s+/g, ''))
    .filter((certificate) => /^[A-Za-z0-9+/]+={0,2}$/.test(certificate));
  if (certificates.length === 0) throw invalid('SAML Metadata does not contain a signing certificate');
  const entryPoint = elements(descriptor, metadataSpace, 'SingleSignOnService')
    .find((service) => service.getAttribute('Binding') === redirectBinding)
    ?.getAttribute('Location');
  if (!entryPoint || !/^https?:$/.test(URL.canParse(entryPoint) ? new URL(entryPoint).protocol : '')) {
    throw invalid('SAML Metadata does not contain a SingleSignOnService for HTTP-Redirect');
  }
  return { entityId, entryPoint, certificates };
}

/**
 * Fetches metadata from the URL of a provider.
 * @param fetchUrl `publicFetch`, or `fetch` where private addresses are allowed
 * @throws AuthError validation_failed, saml_metadata_fetch_failed
 */
export async function fetchMetadata(url: string, fetchUrl: Fetch): Promise<string> {
  if (!URL.canParse(url)) throw invalid('metadata_url is not a valid URL');
  if (new URL(url).protocol !== 'https:') throw invalid('metadata_url is not a HTTPS URL');
  const failed = (reason: string) =>
    new AuthError(400, 'saml_metadata_fetch_failed', `${reason} fetching SAML Metadata from URL '${url}'`);
  const answer = await fetchUrl(url, {
    headers: { accept: 'application/xml' },
    signal: AbortSignal.timeout(10_000),
  }).catch(() => {
    throw failed('Error');
  });
  if (!answer.ok) throw failed(`HTTP ${answer.status} error`);
  return readBounded(answer).catch(() => {
    throw failed('Error');
  });
}

async function readBounded(answer: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
    length += part.length;
    if (length > maxMetadataBytes) throw new Error('metadata is too large');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function elements(parent: Element, space: string, name: string): Element[] {
  return Array.from(parent.getElementsByTagNameNS(space, name));
}
