// The shop's name and contacts, for messages.
import { useRouteLoaderData } from 'react-router';
import { exampleFacts, type MessageFacts } from '../../../domain/messages/customer-message.ts';

interface RootFacts {
  settings: { store_name: string; support_phone: string; support_email: string };
  config: { publicUrl?: string };
}

export function useShop(): { shop: MessageFacts['shop']; publicUrl: string } {
  const root = useRouteLoaderData<RootFacts>('root');
  if (!root) return { shop: exampleFacts.shop, publicUrl: '' };
  const { store_name, support_phone, support_email } = root.settings;
  return {
    shop: { name: store_name, phone: support_phone, email: support_email },
    publicUrl: root.config.publicUrl ?? '',
  };
}
