// Identity providers of companies: stored in the database, managed with the secret key.
import type { Session } from '../../../database/database.ts';
import { AuthError, invalid } from '../../auth-error.ts';
import type { AuthContext, AuthRequest } from '../../context.ts';
import { at } from '../../context.ts';
import { flag, isUuid, object, optionalText, text } from '../../requests/fields.ts';
import { type Json, rfc3339 } from '../../rows.ts';
import { publicFetch } from '../public-fetch.ts';
import { fetchMetadata, parseMetadata } from './saml-metadata.ts';
import type { AttributeMapping } from './saml-service-provider.ts';

export interface SsoProviderRow {
  id: string;
  resource_id: string | null;
  disabled: boolean;
  entity_id: string;
  metadata_xml: string;
  metadata_url: string | null;
  attribute_mapping: AttributeMapping | null;
  name_id_format: string | null;
  domains: string[];
  created_at: string;
  updated_at: string;
}

const select = `select sso.id, sso.resource_id, sso.disabled, saml.entity_id, saml.metadata_xml, saml.metadata_url,
    saml.attribute_mapping, saml.name_id_format, sso.created_at, sso.updated_at,
    (select coalesce(jsonb_agg(domain order by created_at, domain), '[]') from auth.sso_domains
     where sso_provider_id = sso.id) as domains
  from auth.sso_providers sso join auth.saml_providers saml on saml.sso_provider_id = sso.id`;

/** Finds a company's provider. */
export async function findSsoProvider(
  session: Session,
  by: { id: string } | { resourceId: string } | { domain: string } | { entityId: string },
): Promise<SsoProviderRow | null> {
  const [condition, value] =
    'id' in by
      ? ['sso.id = $1::uuid', by.id]
      : 'resourceId' in by
        ? ['lower(sso.resource_id) = lower($1)', by.resourceId]
        : 'entityId' in by
          ? ['saml.entity_id = $1', by.entityId]
          : [
              'sso.id in (select sso_provider_id from auth.sso_domains where lower(domain) = lower($1))',
              by.domain,
            ];
  const { rows } = await session.query<SsoProviderRow>(`${select} where ${condition}`, [value]);
  return rows[0] ?? null;
}

/** GET /admin/sso/providers: all of them, without their long metadata. */
export async function listSsoProviders(_: AuthRequest, context: AuthContext): Promise<Response> {
  const { rows } = await context.database.query<SsoProviderRow>(`${select} order by sso.created_at, sso.id`);
  return Response.json({ items: rows.map((row) => providerJson({ ...row, metadata_xml: '' })) });
}

/** GET /admin/sso/providers/{id}. @throws AuthError sso_provider_not_found */
export async function readSsoProvider(request: AuthRequest, context: AuthContext): Promise<Response> {
  return Response.json(providerJson(await named(request, context.database)));
}

/** POST /admin/sso/providers. @throws AuthError validation_failed, saml_idp_already_exists, sso_domain_already_exists */
export async function createSsoProvider(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  if (text(body, 'type') !== 'saml') throw invalid("Only 'saml' supported for SSO provider type");
  const metadata = await givenMetadata(request, context);
  if (!metadata) throw invalid('Either metadata_xml or metadata_url must be set');
  const provider = await context.database.transaction(async (tx) => {
    if (await findSsoProvider(tx, { entityId: metadata.entityId })) {
      throw new AuthError(
        422,
        'saml_idp_already_exists',
        `SAML Identity Provider with this EntityID (${metadata.entityId}) already exists`,
      );
    }
    const { rows } = await tx.query<{ id: string }>(
      `insert into auth.sso_providers (resource_id, disabled, created_at, updated_at)
       values ($1, $2::boolean, $3::timestamptz, $3::timestamptz) returning id`,
      [optionalText(body, 'resource_id') ?? null, flag(body, 'disabled'), at(context)],
    );
    const id = rows[0]?.id ?? '';
    await tx.query(
      `insert into auth.saml_providers
         (sso_provider_id, entity_id, metadata_xml, metadata_url, attribute_mapping, name_id_format)
       values ($1::uuid, $2, $3, $4, $5::jsonb, $6)`,
      [
        id,
        metadata.entityId,
        metadata.xml,
        text(body, 'metadata_url') || null,
        object(body, 'attribute_mapping'),
        nameIdFormat(request) || null,
      ],
    );
    await setDomains(tx, id, domainsIn(request) ?? []);
    return findSsoProvider(tx, { id });
  });
  return Response.json(providerJson(provider as SsoProviderRow), { status: 201 });
}

/** PUT /admin/sso/providers/{id}: changes the given properties. @throws AuthError saml_entity_id_mismatch and as for POST */
export async function changeSsoProvider(request: AuthRequest, context: AuthContext): Promise<Response> {
  const { body } = request;
  const metadata = await givenMetadata(request, context);
  const changed = await context.database.transaction(async (tx) => {
    const { id, entity_id: entityId } = await named(request, tx);
    if (metadata && metadata.entityId !== entityId) {
      throw new AuthError(
        400,
        'saml_entity_id_mismatch',
        `SAML Metadata can be updated only if the EntityID matches for the provider; expected '${entityId}' but got '${metadata.entityId}'`,
      );
    }
    await tx.query(
      `update auth.sso_providers set resource_id = coalesce($2, resource_id),
         disabled = coalesce($3::boolean, disabled), updated_at = $4::timestamptz where id = $1::uuid`,
      [
        id,
        optionalText(body, 'resource_id') ?? null,
        body.disabled === undefined ? null : flag(body, 'disabled'),
        at(context),
      ],
    );
    await tx.query(
      `update auth.saml_providers set metadata_xml = coalesce($2, metadata_xml),
         metadata_url = coalesce($3, metadata_url), attribute_mapping = coalesce($4::jsonb, attribute_mapping),
         name_id_format = coalesce($5, name_id_format), updated_at = $6::timestamptz
       where sso_provider_id = $1::uuid`,
      [
        id,
        metadata?.xml ?? null,
        text(body, 'metadata_url') || null,
        object(body, 'attribute_mapping'),
        nameIdFormat(request) || null,
        at(context),
      ],
    );
    const domains = domainsIn(request);
    if (domains) {
      await tx.query('delete from auth.sso_domains where sso_provider_id = $1::uuid', [id]);
      await setDomains(tx, id, domains);
    }
    return findSsoProvider(tx, { id });
  });
  return Response.json(providerJson(changed as SsoProviderRow));
}

/** DELETE /admin/sso/providers/{id}. @throws AuthError sso_provider_not_found */
export async function deleteSsoProvider(request: AuthRequest, context: AuthContext): Promise<Response> {
  const provider = await named(request, context.database);
  await context.database.query('delete from auth.sso_providers where id = $1::uuid', [provider.id]);
  return Response.json(providerJson(provider));
}

async function named(request: AuthRequest, session: Session): Promise<SsoProviderRow> {
  const id = request.parameters.idp_id ?? '';
  const found = id.startsWith('resource_')
    ? await findSsoProvider(session, { resourceId: id.slice('resource_'.length) })
    : isUuid(id)
      ? await findSsoProvider(session, { id })
      : null;
  if (!found) throw new AuthError(404, 'sso_provider_not_found', 'SSO Identity Provider not found');
  return found;
}

async function givenMetadata(
  { body }: AuthRequest,
  { settings }: AuthContext,
): Promise<{ entityId: string; xml: string } | null> {
  const [url, inlineXml] = [text(body, 'metadata_url'), text(body, 'metadata_xml', 1_048_576)];
  if (url && inlineXml) throw invalid('Only one of metadata_xml or metadata_url needs to be set');
  if (!url && !inlineXml) return null;
  const xml =
    inlineXml || (await fetchMetadata(url, settings.saml.allowsPrivateAddresses ? fetch : publicFetch));
  return { xml, entityId: (await parseMetadata(xml)).entityId };
}

const nameIdFormats = [
  'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent',
  'urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress',
  'urn:oasis:names:tc:SAML:2.0:nameid-format:transient',
  'urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified',
];

function nameIdFormat({ body }: AuthRequest): string {
  const format = text(body, 'name_id_format');
  if (format && !nameIdFormats.includes(format)) {
    throw invalid(`name_id_format must be unspecified or one of ${nameIdFormats.join(', ')}`);
  }
  return format;
}

function domainsIn({ body }: AuthRequest): string[] | null {
  const { domains } = body;
  if (domains === undefined || domains === null) return null;
  if (!Array.isArray(domains) || domains.some((domain) => typeof domain !== 'string' || !domain)) {
    throw invalid('domains must be a list of texts');
  }
  return [...new Set((domains as string[]).map((domain) => domain.toLowerCase()))];
}

async function setDomains(tx: Session, id: string, domains: string[]): Promise<void> {
  for (const domain of domains) {
    const holder = await findSsoProvider(tx, { domain });
    if (holder) {
      throw new AuthError(
        400,
        'sso_domain_already_exists',
        `SSO Domain '${domain}' is already assigned to an SSO identity provider (${holder.id})`,
      );
    }
    await tx.query('insert into auth.sso_domains (sso_provider_id, domain) values ($1::uuid, $2)', [
      id,
      domain,
    ]);
  }
}

function providerJson(row: SsoProviderRow): Json {
  return {
    id: row.id,
    ...(row.resource_id ? { resource_id: row.resource_id } : {}),
    disabled: row.disabled,
    saml: {
      entity_id: row.entity_id,
      ...(row.metadata_xml ? { metadata_xml: row.metadata_xml } : {}),
      ...(row.metadata_url ? { metadata_url: row.metadata_url } : {}),
      attribute_mapping: row.attribute_mapping ?? {},
      ...(row.name_id_format ? { name_id_format: row.name_id_format } : {}),
    },
    domains: row.domains.map((domain) => ({ domain })),
    created_at: rfc3339(row.created_at),
    updated_at: rfc3339(row.updated_at),
  };
}
