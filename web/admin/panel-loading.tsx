// What a staff screen shows until its scripts have started, and instead if they cannot (`server/gate-scripts.ts`).
import { floorText } from '../lib/browser-floor.ts';
import { LayerlessSheet } from '../ui/layerless-sheet.tsx';
import { Spinner } from '../ui/spinner.tsx';

export function PanelLoading({ label }: { label: string }) {
  return (
    <>
      <LayerlessSheet />
      <div id="loading">
        <Spinner label={label} />
      </div>
      <div id="browser-notice" hidden role="alert">
        <BrowserNotice />
      </div>
      <noscript>
        <BrowserNotice />
      </noscript>
    </>
  );
}

function BrowserNotice() {
  return (
    <div className="grid max-w-prose gap-2 p-4 text-center">
      <p className="font-semibold">The staff panel cannot start in this browser.</p>
      <p>
        It needs JavaScript and {floorText}, or newer. Please update this browser or use another one, then
        reload this page.
      </p>
    </div>
  );
}
