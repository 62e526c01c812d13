// The templates of all messages: each kind as an e-mail and as a text, and the replies to inquiries.

import { messageKinds } from '../../../domain/messages/customer-message.ts';
import { textLength } from '../../../domain/messages/text-message.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { keysOf } from '../data/keys-of.ts';
import { useDialogOpener } from '../dialogs/use-dialog-parameter.ts';
import { describeStaffPage } from '../layout/staff-page.ts';
import { ScreenLoadState } from '../ui/load-states.tsx';
import { PageHeading } from '../ui/page-heading.tsx';
import type { Route } from './+types/templates-page.ts';
import { type Template, useTemplates } from './message-queries.ts';
import { channelLabel, channelLabels, kindLabel } from './message-texts.ts';
import { ReplyTemplates } from './reply-templates.tsx';
import { TemplateDialog } from './template-dialog.tsx';
import { useExample } from './use-example.ts';

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Message templates');

export default function TemplatesPage() {
  const query = useTemplates();
  const templates = query.data;
  return (
    <div className="grid max-w-5xl grid-cols-[minmax(0,1fr)] gap-6">
      <PageHeading up={{ to: '/admin/messages', name: 'Messages' }} heading="Message templates">
        What customers get at each step, and what staff are mailed. Shown with an example.
      </PageHeading>
      {templates ? (
        keysOf(messageKinds).map((kind) =>
          kind === 'inquiry_reply' ? (
            <ReplyTemplates key={kind} />
          ) : templates.every((each) => each.kind !== kind) ? null : (
            <Card key={kind} title={kindLabel(kind)}>
              <div className="grid gap-4 xl:grid-cols-2 [&>:only-child]:col-span-full">
                {keysOf(channelLabels).map((channel) => {
                  const template = templates.find((each) => each.kind === kind && each.channel === channel);
                  return template ? <Shown key={channel} template={template} /> : null;
                })}
              </div>
            </Card>
          ),
        )
      ) : (
        <ScreenLoadState noun="templates" queries={[query]} />
      )}
      <TemplateDialog templates={templates} />
    </div>
  );
}

function Shown({ template }: { template: Template }) {
  const open = useDialogOpener('edit');
  const example = useExample();
  const { subject, body } = example(template, template);
  const channel = channelLabel(template.channel);
  const { positions, limit, parts } = textLength(body);
  return (
    <section
      aria-label={`${kindLabel(template.kind)}: ${channel}`}
      className={`grid grid-cols-[minmax(0,1fr)] content-start gap-3 rounded-lg border border-line p-4 ${template.is_on ? '' : 'bg-paper-deep'}`}
    >
      <div className="flex flex-wrap items-center justify-between gap-2">
        <h3 className="flex items-center gap-2 text-base">
          {channel}
          {template.is_on ? null : <Badge tone="grey">Off</Badge>}
        </h3>
        <Button tone="quiet" onClick={() => open(template.id)} aria-haspopup="dialog">
          Edit
          <span className="sr-only">
            : {kindLabel(template.kind)}, {channel}
          </span>
        </Button>
      </div>
      {subject ? <p className="text-sm font-semibold wrap-anywhere">{subject}</p> : null}
      <p
        className={`text-sm wrap-anywhere whitespace-pre-wrap ${template.channel === 'mail' ? 'line-clamp-6' : ''}`}
      >
        {body}
      </p>
      {template.channel === 'text' ? (
        <p className="text-xs text-ink-soft">
          {positions} of {limit} characters{parts > 1 ? `, charged as ${parts} messages` : ''}
        </p>
      ) : null}
    </section>
  );
}
