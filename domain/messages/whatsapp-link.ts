// Links that open a chat on WhatsApp, with a text that the sender can still change.

/**
 * @param phone with its country code, in any spelling; null if the sender chooses the recipient
 * @param text what the chat starts with; '' for none
 */
export function whatsappLink(phone: string | null, text = ''): string {
  return `https://wa.me/${(phone ?? '').replace(/\D/g, '')}${text && `?text=${encodeURIComponent(text)}`}`;
}

/**
 * What a customer's chat with the shop starts with: short, because the customer writes on.
 * @param subject a drink or `order JJ-...`
 */
export const chatText = (subject?: string): string => `Habari!${subject ? ` It's about ${subject}.` : ''}`;
