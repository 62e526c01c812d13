// What a staff screen shows until its scripts have started, and instead if they cannot (`server/pages/gate-scripts.ts`).
import { floorText } from '../../../domain/browser-floor.ts';
import { LayerlessSheet } from '../../ui/dialog/layerless-sheet.tsx';
import { Spinner } from '../../ui/spinner.tsx';

export function PanelLoading({ label }: { label: string }) {
  return (
    <>
      <LayerlessSheet />
      <div id="loading" className="font-waiting">
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
    <div className="grid max-w-text gap-2 p-4 text-center">
      <p className="font-semibold">The staff panel could not start.</p>
      <p>
        Please check the connection and reload this page. The panel needs JavaScript and {floorText}, or
        newer: update an older browser, or use another one.
      </p>
    </div>
  );
}
