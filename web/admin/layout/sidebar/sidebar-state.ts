// Whether the sidebar is expanded, stored in a cookie for a week (docs/product.md#panel-layout).

const name = 'sidebar_state';
const week = 7 * 24 * 60 * 60;

/**
 * @param cookies as in `document.cookie`
 * @param hasRoom whether the screen has space for it next to a table: the default without a cookie
 */
export function isSidebarExpanded(cookies: string, hasRoom = true): boolean {
  const stored = cookies.split(/;\s*/).find((cookie) => cookie.startsWith(`${name}=`));
  return stored ? stored !== `${name}=collapsed` : hasRoom;
}

/** @returns the value for `document.cookie` */
export function sidebarCookie(isExpanded: boolean): string {
  return `${name}=${isExpanded ? 'expanded' : 'collapsed'}; path=/admin; max-age=${week}; samesite=lax`;
}
