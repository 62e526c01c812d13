// A command for the terminal, for what the panel cannot do.
import { CopyButton } from '../../ui/copy-button.tsx';

export function TerminalCommand({ what, command }: { what: string; command: string }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-1">
      <p className="text-sm font-semibold">{what}</p>
      <div className="flex items-center gap-2 rounded-md bg-paper-deep pl-4">
        <code className="min-w-0 grow py-2.5 text-sm wrap-anywhere">{command}</code>
        <CopyButton text={command} what={`the command: ${what}`} />
      </div>
    </div>
  );
}
