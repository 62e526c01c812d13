// Whether the sidebar is expanded, kept in a cookie for a week (specification §4 and §9).

const name = 'sidebar_state';
const week = 7 * 24 * 60 * 60;

/** @param cookies as in `document.cookie`; without ours the sidebar is expanded */
export function isSidebarExpanded(cookies: string): boolean {
  return !cookies.split(/;\s*/).includes(`${name}=collapsed`);
}

/** @returns what to assign to `document.cookie` */
export function sidebarCookie(isExpanded: boolean): string {
  return `${name}=${isExpanded ? 'expanded' : 'collapsed'}; path=/admin; max-age=${week}; samesite=lax`;
}
