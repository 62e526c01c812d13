// The notices of this device, above any screen.
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { NoticesSection } from './notices-section.tsx';

export function NoticesDialog({ isOpen, onClose }: { isOpen: boolean; onClose(): void }) {
  return (
    <DialogOrDrawer open={isOpen} onClose={onClose}>
      <DialogHeading
        title="Notices on this device"
        description="How this device reports what waits. Each device has its own choice."
      />
      <DialogBody>
        <NoticesSection />
      </DialogBody>
    </DialogOrDrawer>
  );
}
