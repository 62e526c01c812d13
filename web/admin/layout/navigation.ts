// The entries of the sidebar, in their order (specification §2, Admin layout).
import type { StaffIconName } from './staff-icons.tsx';

export const screens: { label: string; to: string; icon: StaffIconName }[] = [
  { label: 'Dashboard', to: '/admin/dashboard', icon: 'dashboard' },
  { label: 'Products', to: '/admin/products', icon: 'bottle' },
  { label: 'Orders', to: '/admin/orders', icon: 'receipt' },
  { label: 'Deliveries', to: '/admin/deliveries', icon: 'scooter' },
  { label: 'Inquiries', to: '/admin/inquiries', icon: 'inbox' },
];
