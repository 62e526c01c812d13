// What a template says of an example order of this shop.
import { useRouteLoaderData } from 'react-router';
import {
  exampleFacts,
  type MessageChannel,
  type MessageTemplate,
  writeMessage,
} from '../../../domain/customer-message.ts';

interface RootFacts {
  settings: { store_name: string; support_phone: string; support_email: string };
  config: { publicUrl: string };
}

/** @returns what gives the words of a template; the channel is taken from the second */
export function useExample(): (words: MessageTemplate, of: { channel: string }) => MessageTemplate {
  const root = useRouteLoaderData<RootFacts>('root');
  const shop = root
    ? {
        name: root.settings.store_name,
        phone: root.settings.support_phone,
        email: root.settings.support_email,
      }
    : exampleFacts.shop;
  return (words, { channel }) =>
    writeMessage(words, channel as MessageChannel, { ...exampleFacts, shop }, root?.config.publicUrl ?? '');
}
