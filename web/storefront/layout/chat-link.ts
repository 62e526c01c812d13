// The chat with the seller on WhatsApp, which already names what the page is about.
import { useMatches } from 'react-router';
import { chatText, whatsappLink } from '../../../domain/messages/whatsapp-link.ts';
import { useShop } from './use-shop.ts';

/** @param text what the chat starts with. Default: the drink or the order of the page. */
export function useChatLink(text?: string): string {
  const { settings } = useShop();
  const matches = useMatches();
  return whatsappLink(settings.chat_phone, text ?? textAbout(matches[matches.length - 1]?.loaderData));
}

/** @param page the data of a page's loader */
export function textAbout(page: unknown): string {
  // What the product page and the tracking pages load.
  const { product, trackingNumber } = (page ?? {}) as {
    product?: { name: string } | null;
    trackingNumber?: string;
  };
  return chatText(product?.name ?? (trackingNumber && `order ${trackingNumber}`));
}
