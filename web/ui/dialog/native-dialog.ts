// Opens and closes a native dialog. Safari below 15.4 has none: there the element only appears, and Escape does not close it.

const isNative = () => 'HTMLDialogElement' in window && 'showModal' in HTMLDialogElement.prototype;

export const isDialogOpen = (dialog: HTMLDialogElement | null): boolean =>
  dialog?.hasAttribute('open') === true;

export function openDialog(dialog: HTMLDialogElement | null): void {
  if (isNative()) dialog?.showModal();
  else dialog?.setAttribute('open', '');
}

export function closeDialog(dialog: HTMLDialogElement | null): void {
  if (isNative()) dialog?.close();
  else if (isDialogOpen(dialog)) {
    dialog?.removeAttribute('open');
    dialog?.dispatchEvent(new Event('close'));
  }
}
