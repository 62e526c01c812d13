// The services of the shop in this process: the backend with the payment function.

import { type Backend, createBackend } from '@jani-juice/backend';
import type { Database } from '@jani-juice/backend/database';
import type { FairShare } from '@jani-juice/backend/limits';
import type { ApiKeys } from '@jani-juice/backend/settings';
import type { ImageProcess } from '@jani-juice/backend/storage';
import { renderedSides } from '../domain/products/product-image.ts';
import { createMobileMoney } from '../supabase/functions/mobile-money/handler.ts';
import { requestIdHeader } from './http/request-id.ts';
import { createSecretUrls } from './http/secret-urls.ts';
import { createSharedFetch, paymentCalls } from './http/shared-calls.ts';
import { signedInLimits, visitorLimits } from './http/visitor-limits.ts';
import type { OutgoingMessages } from './messages/messages.ts';
import { convertInvitations } from './messages/staff-invitation.ts';
import type { Log } from './monitoring/log.ts';
import { openFiles } from './start/persistence.ts';
import type { Config } from './start/settings/config.ts';
import { darajaSettings } from './start/settings/daraja-settings.ts';
import { shopRealtime } from './start/settings/shop-realtime.ts';
import { staffSignIn } from './start/settings/staff-sign-in.ts';

interface ServiceDependencies {
  config: Config;
  database: Database;
  keys: ApiKeys;
  messages: OutgoingMessages;
  fairShare: FairShare;
  imageProcess: ImageProcess;
  /** Null with the real M-PESA. */
  simulatorUrl: string | null;
  /** This process's own URL, known once it listens. */
  ownUrl(): string;
  log: Log;
  onError(error: unknown, where: string): void;
}

/** Starts the services. */
export async function startServices(dependencies: ServiceDependencies): Promise<Backend> {
  const { config, database, keys, messages, fairShare, imageProcess, simulatorUrl, ownUrl, log, onError } =
    dependencies;
  const secretUrls = createSecretUrls(keys.secret);
  const answer = createMobileMoney({
    database: {
      url: config.publicUrl,
      secretKey: keys.secret,
      fetch: createSharedFetch(fairShare.work, paymentCalls, (input, init) =>
        backend.fetch(new Request(input, init)),
      ),
    },
    daraja: darajaSettings(config.mpesa, config.mpesaQueriesPerMinute, simulatorUrl),
    callbackBaseUrl: () => callbackUrl(simulatorUrl === null ? config.publicUrl : ownUrl()),
    publicCallbackBaseUrl: () => callbackUrl(config.port === 0 ? ownUrl() : config.publicUrl),
    requestIdOf: ({ headers }) => headers.get(requestIdHeader),
    // One that finds no place is settled by a job.
    afterAnswer: (work) => void fairShare.afterPartners(work).catch(() => {}),
    log: ({ level, ...event }) => log[level](event, 'mobile money'),
  });
  // The function calls the services, and they run the function.
  const backend: Backend = await createBackend({
    database,
    keys,
    functions: {
      'mobile-money': {
        async handler(request) {
          const response = await answer(request);
          if (response.ok) secretUrls.remember(new URL(request.url).pathname);
          return response;
        },
        knowsSender: secretUrls.isKnown,
        // M-PESA sends its callbacks without a token.
        verifyJwt: 'when-sent',
      },
    },
    files: openFiles(config),
    publicUrl: config.publicUrl,
    realtime: shopRealtime,
    auth: {
      settings: staffSignIn(config),
      messages: convertInvitations(messages, {
        publicUrl: config.publicUrl,
        readName: async () => {
          const { rows } = await database.query<{ store_name: string }>(
            'select store_name from public.store_settings',
          );
          return rows[0]?.store_name ?? 'Jani Juice';
        },
      }),
    },
    allowedOrigins: [new URL(config.publicUrl).origin, ...config.backend.allowedOrigins],
    fairShare,
    imageProcess,
    visitorLimits,
    signedInLimits,
    visitorImageSides: renderedSides,
    onError,
  });
  return backend;
}

const callbackUrl = (origin: string) => `${origin}/functions/v1/mobile-money/notice`;
