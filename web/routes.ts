// Every URL of the shop, on one page.
import { index, layout, type RouteConfig, route } from '@react-router/dev/routes';

export default [
  layout('storefront/layout/storefront-layout.tsx', [
    index('storefront/home/home-page.tsx'),
    route('shop', 'storefront/shop/shop-page.tsx'),
    route('shop/:slug', 'storefront/product/product-page.tsx'),
    route('track-order/:trackingNumber?', 'storefront/tracking/tracking-page.tsx'),
    route('delivery', 'storefront/delivery/delivery-page.tsx'),
    route('contact', 'storefront/contact/contact-page.tsx'),
    route('newsletter', 'storefront/layout/newsletter-page.tsx'),
    route('*', 'storefront/layout/not-found-page.tsx'),
  ]),
] satisfies RouteConfig;
