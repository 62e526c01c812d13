/** The names of the dialog's files are in this module, and not in a script that every page with a drink loads. */
export const loadOrderDialog = () => import('./order-dialog.tsx');
