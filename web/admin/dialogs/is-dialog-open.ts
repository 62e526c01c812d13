/** Whether a dialog or a menu is open. */
export const isDialogOpen = (): boolean =>
  document.querySelector('[role=dialog][data-state=open], [role=menu]') !== null;
