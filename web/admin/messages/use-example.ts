// Renders a template with an example order or newsletter e-mail.
import { useRouteLoaderData } from 'react-router';
import {
  exampleFacts,
  exampleOf,
  type MessageTemplate,
  writeMessage,
} from '../../../domain/customer-message.ts';
import type { Template } from './message-queries.ts';

interface RootFacts {
  settings: { store_name: string; support_phone: string; support_email: string };
  config: { publicUrl: string };
}

/** @returns renders the first template; kind and channel are those of the second */
export function useExample(): (
  words: MessageTemplate,
  of: Pick<Template, 'kind' | 'channel'>,
) => MessageTemplate {
  const root = useRouteLoaderData<RootFacts>('root');
  const shop = root
    ? {
        name: root.settings.store_name,
        phone: root.settings.support_phone,
        email: root.settings.support_email,
      }
    : exampleFacts.shop;
  return (words, { kind, channel }) =>
    writeMessage(words, channel, exampleOf(kind, shop), root?.config.publicUrl ?? '');
}
