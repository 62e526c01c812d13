// The parts of a page that only devices with orders load, as one file.
export { default as LastOrder } from '../last-order/last-order.tsx';
export { default as OrdersWatch } from './orders-watch.tsx';
export { default as UnpaidOrder } from './unpaid-order.tsx';
