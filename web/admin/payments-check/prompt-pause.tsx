// Prompts are paused because M-PESA rejects the shop's own settings: the reason, until when, and how to resume.
import { adviseOnResult } from '../../../domain/mpesa/result-advice.ts';
import { Button } from '../../ui/button.tsx';
import { dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { formatDateTime } from '../ui/time/dates.ts';
import { usePaymentHealth } from './payment-health.ts';

export function PromptPause() {
  const { tables } = useMember().staff;
  const health = usePaymentHealth().data;
  const pause = health?.pause;
  const resume = useSave({
    write: async () => dataOf(await tables.rpc('resume_prompts')),
    success: 'Prompts are sent again',
    failure: 'Failed to resume prompts',
    refresh: ['payment-health', 'dashboard'],
  });
  if (!pause) return null;
  const { what, advice } = adviseOnResult(
    pause.code,
    pause.description,
    pause.is_refused ? 'request' : 'result',
  );
  const isOver = Date.parse(pause.until) <= Date.parse(health.checked_at);
  return (
    <section
      aria-label="Prompts are paused"
      className="grid justify-items-start gap-3 rounded-md border border-danger/40 bg-danger-soft px-4 py-3 text-danger"
    >
      <div>
        <h2 className="text-lg">
          {isOver
            ? `M-PESA has refused prompts since ${formatDateTime(pause.since)}`
            : `Customers get no prompts until ${formatDateTime(pause.until)}`}
        </h2>
        <p className="text-sm">
          {what} {advice} (code {pause.code}){' '}
          {isOver
            ? 'The next prompt is sent as a trial. Or send one for KSh 1 to your own phone below.'
            : 'In the meantime customers are offered the till or paybill, where its number is set. Then one prompt is tried again automatically. After a correction, test it with KSh 1 below: a prompt that works ends this.'}
        </p>
      </div>
      <Button tone="quiet" isBusy={resume.isPending} onClick={() => resume.mutate()}>
        It is fixed: send prompts again
      </Button>
    </section>
  );
}
