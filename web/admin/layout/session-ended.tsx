// Asks who was signed out in the middle of something to sign in again, and keeps what was typed until they have.
import { buttonStyle } from '../../ui/button.tsx';
import { DialogFooter, DialogHeading, DialogOrDrawer } from '../../ui/dialog-or-drawer.tsx';

/** Whether something on the screen is not saved: said as it is said to a browser that is about to leave, or typed into a dialog. */
export function isSomethingUnsaved(): boolean {
  return (
    !window.dispatchEvent(new Event('beforeunload', { cancelable: true })) ||
    document.querySelector('[role=dialog][data-state=open] form') !== null
  );
}

/** Closes by itself: every tab hears of a new session. */
export function SessionEnded({ isOpen }: { isOpen: boolean }) {
  return (
    <DialogOrDrawer open={isOpen} onOpenChange={() => {}}>
      <DialogHeading
        title="Your session has ended"
        description="What you typed is still here. Sign in again in a new tab, then come back and go on where you were."
      />
      <DialogFooter>
        <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
          <a href="/admin/login" className={buttonStyle('quiet')}>
            Leave without saving
          </a>
          <a href="/admin/login" target="_blank" rel="noreferrer" className={buttonStyle('leaf')}>
            Sign in in a new tab
          </a>
        </div>
      </DialogFooter>
    </DialogOrDrawer>
  );
}
