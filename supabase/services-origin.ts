// Where the shop's services are. Apart from the clients: most pages load only some of them.

export interface StoreAddress {
  /** Origin of the backend's services without a trailing slash; '' for the page's own origin. */
  url: string;
  /** The publishable key. */
  key: string;
}

/** The absolute origin of the services. */
export function servicesOrigin({ url }: StoreAddress): string {
  return url || window.location.origin;
}
