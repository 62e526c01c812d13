// Offers the jobs that a rider has just been given as a message on WhatsApp: one press, and all jobs in as few messages as possible.
import { joinJobs } from '../../../domain/deliveries/rider-job.ts';
import type { Staff } from '../../lib/staff.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { dismissToast, showToast } from '../../ui/toasts/toasts.tsx';
import { dataOf } from '../data/table-answer.ts';
import { listed, ofItems } from './delivery-queries.ts';
import { chatWithRider, jobText } from './rider-chat.ts';

/** The message that reports the assignment: the offer takes its place, and the next one the place of the offer. */
const topic = 'saved';

/** Not longer: on a phone it covers the filters, and the list of deliveries has the same link. */
const staysMs = 10_000;

/** More are no tour of one rider. */
const mostJobs = 100;

/**
 * Nothing where the rider's number is not on WhatsApp, or the customers' data was erased.
 * @param done what was done: 'Delivery assigned successfully'
 */
export async function offerJobs(tables: Staff['tables'], orderIds: readonly string[], done: string) {
  if (orderIds.length > mostJobs) return;
  const deliveries = dataOf(
    await tables
      .from('deliveries')
      .select(listed)
      .in('order_id', orderIds)
      .order('position', ofItems)
      .order('created_at'),
  );
  const [first] = deliveries;
  const jobs = deliveries
    .filter(({ delivery_phone }) => delivery_phone === first?.delivery_phone)
    .flatMap(({ order, ...delivery }) => jobText(order, delivery) ?? []);
  const messages = joinJobs(jobs).flatMap(({ text, jobs: count }) => {
    const href = chatWithRider(first?.delivery_phone, text);
    return href ? { href, count } : [];
  });
  if (messages.length === 0) return;
  const rider = first?.delivery_person?.split(/\s/)[0];
  showToast({
    title: 'Success',
    text: done,
    topic,
    staysMs,
    content: (
      <p className="mt-2 flex flex-wrap gap-2">
        {messages.map(({ href, count }) => (
          <a
            key={href}
            href={href}
            target="_blank"
            rel="noreferrer"
            className={`${buttonStyle('quiet')} px-3!`}
            onClick={() => {
              if (messages.length === 1) void dismissToast(topic);
            }}
          >
            {`WhatsApp ${count === 1 ? 'the job' : `${count} jobs`} to ${rider}`}
          </a>
        ))}
      </p>
    ),
  });
}
