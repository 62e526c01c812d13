// The bell of the header: opens the notices of this device, and says when the browser keeps its sounds back.
import { useState } from 'react';
import { StaffIcon } from '../layout/sidebar/staff-icons.tsx';
import { usePart } from '../ui/use-part.ts';
import { useDeviceSettings } from './device-settings.ts';
import { useSoundState } from './sounds.ts';

const loadDialog = () => import('./notices-dialog.tsx');
const prepare = () => void loadDialog().catch(() => {});

export function NoticesButton() {
  const [isOpen, setOpen] = useState(false);
  const dialog = usePart(loadDialog, isOpen, () => setOpen(false));
  const { volume } = useDeviceSettings();
  const isBlocked = useSoundState() === 'blocked' && volume !== 'off';
  return (
    <>
      <button
        type="button"
        onClick={() => setOpen(true)}
        onPointerEnter={prepare}
        onFocus={prepare}
        aria-haspopup="dialog"
        title={
          isBlocked
            ? 'Press once anywhere so that this device may make sounds'
            : volume === 'off'
              ? 'Notices on this device: the sound is off'
              : 'Notices on this device'
        }
        className={`ml-auto flex min-h-11 min-w-11 shrink-0 items-center justify-center gap-1.5 rounded-md px-1.5 text-sm font-semibold transition-colors hover:bg-paper-deep hover:text-ink max-md:flex-col max-md:gap-0 max-md:text-xs lg:ml-0 ${isBlocked ? 'text-ember-700' : 'text-ink-soft'}`}
      >
        <StaffIcon name={volume === 'off' || isBlocked ? 'bell-off' : 'bell'} />
        <span className="max-[26rem]:sr-only">{isBlocked ? 'Press for sound' : 'Notices'}</span>
      </button>
      {dialog ? <dialog.NoticesDialog isOpen={isOpen} onClose={() => setOpen(false)} /> : null}
    </>
  );
}
