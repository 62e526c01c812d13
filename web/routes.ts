// Every URL of the shop, on one page.
import { index, layout, type RouteConfig, route } from '@react-router/dev/routes';

export default [
  layout('storefront/layout/storefront-layout.tsx', [
    index('storefront/home/home-page.tsx'),
    route('shop', 'storefront/shop/shop-page.tsx'),
    route('shop/:slug', 'storefront/product/product-page.tsx'),
    route('shop/:slug/order', 'storefront/order/order-page.tsx'),
    route('track-order/:trackingNumber?', 'storefront/tracking/tracking-page.tsx'),
    route('track-order/:trackingNumber/receipt', 'storefront/tracking/receipt-page.tsx'),
    route('track-order/:trackingNumber/pay', 'storefront/payment/pay-page.tsx'),
    route('delivery', 'storefront/delivery/delivery-page.tsx'),
    route('contact', 'storefront/contact/contact-page.tsx'),
    route('newsletter', 'storefront/layout/newsletter-page.tsx'),
    route('*', 'storefront/layout/not-found-page.tsx'),
  ]),
  route('t/:code/:page?', 'storefront/tracking/short-link.ts'),
  route('sitemap.xml', 'storefront/discovery/sitemap.ts'),
  route('robots.txt', 'storefront/discovery/robots.ts'),
  route('manifest.webmanifest', 'storefront/discovery/web-manifest.ts'),
  route('admin/login', 'admin/sign-in/sign-in-page.tsx'),
  route('admin/reset-password', 'admin/sign-in/reset-password-page.tsx'),
  route('admin', 'admin/layout/staff-layout.tsx', [
    index('admin/layout/to-dashboard.ts'),
    route('dashboard', 'admin/dashboard/dashboard-page.tsx'),
    route('products', 'admin/products/products-page.tsx'),
    route('orders/:orderId?', 'admin/orders/orders-page.tsx'),
    route('deliveries', 'admin/deliveries/deliveries-page.tsx'),
    route('inquiries', 'admin/inquiries/inquiries-page.tsx'),
    route('messages', 'admin/messages/messages-page.tsx'),
    route('messages/templates', 'admin/messages/templates-page.tsx'),
    route('reconciliation', 'admin/reconciliation/reconciliation-page.tsx'),
    route('reconciliation/days', 'admin/reconciliation/days-page.tsx'),
    route('settings', 'admin/settings/settings-page.tsx'),
    route('settings/payments', 'admin/payments-check/payments-check-page.tsx'),
    route('account', 'admin/account/account-page.tsx'),
  ]),
] satisfies RouteConfig;
