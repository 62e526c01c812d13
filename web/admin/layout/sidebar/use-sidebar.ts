// State of the sidebar: expanded or collapsed next to the page, open or closed above it on phones.
import { useCallback, useEffect, useRef, useState } from 'react';
import { readCookies, writeCookie } from '../../../lib/browser/browser-storage.ts';
import { closeDialog, isDialogOpen, openDialog } from '../../../ui/dialog/native-dialog.ts';
import { isSidebarExpanded, sidebarCookie } from './sidebar-state.ts';

/** Below this width the sidebar is a drawer (docs/product.md#numbers). */
const wide = '(min-width: 768px)';
/** Below this width an expanded sidebar leaves a table too little space, so it is collapsed by default. */
const roomy = '(min-width: 90rem)';

export function useSidebar() {
  const [isExpanded, setExpanded] = useState(() =>
    isSidebarExpanded(readCookies(), window.matchMedia(roomy).matches),
  );
  const drawer = useRef<HTMLDialogElement>(null);
  const [isDrawerOpen, setDrawerOpen] = useState(false);

  const toggle = useCallback(() => {
    if (window.matchMedia(wide).matches) {
      setExpanded((before) => {
        writeCookie(sidebarCookie(!before));
        return !before;
      });
    } else if (isDialogOpen(drawer.current)) closeDialog(drawer.current);
    else {
      openDialog(drawer.current);
      setDrawerOpen(true);
    }
  }, []);

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isShortcut =
        (event.ctrlKey || event.metaKey) &&
        !event.altKey &&
        !event.shiftKey &&
        event.key.toLowerCase() === 'b';
      if (!isShortcut) return;
      event.preventDefault();
      if (!event.repeat) toggle();
    };
    // In a wider window the sidebar is next to the page: closes the drawer.
    const media = window.matchMedia(wide);
    const onResize = () => media.matches && closeDialog(drawer.current);
    window.addEventListener('keydown', onKey);
    media.addEventListener('change', onResize);
    return () => {
      window.removeEventListener('keydown', onKey);
      media.removeEventListener('change', onResize);
    };
  }, [toggle]);

  const onDrawerClose = useCallback(() => setDrawerOpen(false), []);
  return { isExpanded, drawer, isDrawerOpen, onDrawerClose, toggle };
}
