// Renders a template with an example order or newsletter e-mail.
import { exampleOf, type MessageTemplate, writeMessage } from '../../../domain/messages/customer-message.ts';
import type { Template } from './message-queries.ts';
import { useShop } from './use-shop.ts';

/** @returns renders the first template; kind and channel are those of the second */
export function useExample(): (
  words: MessageTemplate,
  of: Pick<Template, 'kind' | 'channel'>,
) => MessageTemplate {
  const { shop, publicUrl } = useShop();
  return (words, { kind, channel }) => writeMessage(words, channel, exampleOf(kind, shop), publicUrl);
}
