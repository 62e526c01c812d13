// The reply to an inquiry, as it will be sent: by email or SMS, or a note that it was answered elsewhere.
import { useEffect, useId, useRef, useState } from 'react';
import { Link } from 'react-router';
import { formatCount } from '../../../domain/count.ts';
import { hasPlaceholder, replyLimits, writeReply } from '../../../domain/messages/reply-template.ts';
import { textLength } from '../../../domain/messages/text-message.ts';
import { formatPhone, normalisePhone } from '../../../domain/people/phone.ts';
import { visibleLength } from '../../../domain/visible-text.ts';
import type { InquiryAnswerWay } from '../../../supabase/types.ts';
import { Button } from '../../ui/button.tsx';
import { SelectField, TextArea, TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { focusFirstProblem } from '../dialogs/focus-first-problem.ts';
import { useShop } from '../messages/use-shop.ts';
import { knownNameOf, shorten } from '../ui/known-names.ts';
import { type Inquiry, useReplyTemplates } from './inquiry-queries.ts';
import { sentBody, wayLabels } from './use-answer.ts';
import type { ReplyDraft } from './use-reply-draft.ts';

interface ReplyFormProps {
  id: string;
  inquiry: Inquiry;
  draft: ReplyDraft;
  isSaving: boolean;
  onChange(draft: ReplyDraft): void;
  onSubmit(): void;
}

/** A sentence for each field that stops the reply. */
export function checkReply(draft: ReplyDraft): { way?: string; subject?: string; body?: string } {
  const { ways, subject } = draft;
  const isMessage = !ways.includes('elsewhere');
  // The shortest limit: a text of the same reply.
  const way = ways.at(-1) ?? 'mail';
  const body = sentBody(draft, way);
  const limit = replyLimits[way];
  const bodyProblem =
    isMessage && visibleLength(body.slice(0, limit)) === 0
      ? 'Please write a reply'
      : [...body].length > limit
        ? `At most ${formatCount(limit)} characters${way === 'text' ? ' in an SMS' : ''}`
        : isMessage && hasPlaceholder(body)
          ? 'A placeholder is not filled in'
          : undefined;
  const subjectProblem =
    ways.includes('mail') && visibleLength(subject.slice(0, 300)) === 0
      ? 'A mail needs a subject'
      : undefined;
  return {
    ...(ways.length === 0 ? { way: 'Choose how you answer' } : {}),
    ...(subjectProblem ? { subject: subjectProblem } : {}),
    ...(bodyProblem ? { body: bodyProblem } : {}),
  };
}

/** Whether a colleague has answered since the member began to write. */
export const isOvertaken = (draft: ReplyDraft, inquiry: Inquiry): boolean =>
  draft.seenAnsweredAt !== inquiry.answered_at && inquiry.answered_at !== null;

export function ReplyForm({ id, inquiry, draft, isSaving, onChange, onSubmit }: ReplyFormProps) {
  const form = useRef<HTMLFormElement>(null);
  const [isChecked, setChecked] = useState(false);
  const problems = isChecked ? checkReply(draft) : {};
  const change = (changes: Partial<ReplyDraft>) => onChange({ ...draft, ...changes });
  const isMail = draft.ways.includes('mail');
  const isElsewhere = draft.ways.includes('elsewhere');

  // Opened by its button, which it replaces.
  useEffect(() => {
    form.current?.querySelector<HTMLElement>('textarea')?.focus();
  }, []);

  function submit() {
    setChecked(true);
    if (Object.keys(checkReply(draft)).length > 0) focusFirstProblem(form.current);
    else onSubmit();
  }

  return (
    <form
      ref={form}
      id={id}
      noValidate
      aria-label="Reply"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isSaving) submit();
      }}
      className="grid gap-4 border-t border-line pt-5"
    >
      {isOvertaken(draft, inquiry) ? (
        <Overtaken inquiry={inquiry} onAccept={() => change({ seenAnsweredAt: inquiry.answered_at })} />
      ) : null}
      <Ways
        inquiry={inquiry}
        ways={draft.ways}
        problem={problems.way}
        onChoose={(ways) => change({ ways })}
      />
      {isElsewhere ? null : (
        <TemplatePicker inquiry={inquiry} body={draft.body} onChange={(body) => change({ body })} />
      )}
      {isMail ? (
        <TextField
          label="Subject"
          name="subject"
          required
          maxLength={300}
          autoComplete="off"
          value={draft.subject}
          problem={problems.subject}
          onChange={({ target }) => change({ subject: target.value })}
        />
      ) : null}
      <TextArea
        label={isElsewhere ? 'What was said (only colleagues read it)' : 'Reply'}
        name="body"
        required={!isElsewhere}
        rows={isMail ? 8 : 4}
        value={draft.body}
        problem={problems.body}
        onChange={({ target }) => change({ body: target.value })}
      />
      {draft.ways.includes('text') ? <TextInfo draft={draft} /> : null}
    </form>
  );
}

function Overtaken({ inquiry, onAccept }: { inquiry: Inquiry; onAccept(): void }) {
  return (
    <Notice
      tone="danger"
      title={`${shorten(knownNameOf(inquiry.answered_by ?? ''))} answered this in the meantime. Nothing of yours was sent.`}
    >
      <span className="grid justify-items-start gap-3">
        <span>Their answer is above. Send yours only if the customer still needs it.</span>
        <Button tone="quiet" onClick={onAccept}>
          Reply all the same
        </Button>
      </span>
    </Notice>
  );
}

interface WaysProps {
  inquiry: Inquiry;
  ways: ReplyDraft['ways'];
  problem: string | undefined;
  onChoose(ways: ReplyDraft['ways']): void;
}

/** The ways to reach this customer: email and SMS at once, or a note of what was said elsewhere. */
function Ways({ inquiry: { email, phone }, ways: chosen, problem, onChoose }: WaysProps) {
  const problemId = useId();
  const mobile = phone ? normalisePhone(phone) : null;
  const ways: { way: InquiryAnswerWay; to: string }[] = [
    { way: 'mail', to: email },
    ...(mobile ? [{ way: 'text' as const, to: formatPhone(mobile) }] : []),
    { way: 'elsewhere', to: 'By phone or chat' },
  ];
  function toggle(way: InquiryAnswerWay) {
    if (chosen.includes(way)) onChoose(chosen.filter((each) => each !== way));
    else if (way === 'elsewhere') onChoose([way]);
    else onChoose((['mail', 'text'] as const).filter((each) => each === way || chosen.includes(each)));
  }
  return (
    <fieldset className="grid gap-2 sm:flex sm:flex-wrap" aria-describedby={problem ? problemId : undefined}>
      <legend className="mb-1.5 text-sm font-semibold">Answer by</legend>
      {ways.map(({ way: each, to }) => (
        <label
          key={each}
          className="flex min-h-11 min-w-0 cursor-pointer items-center gap-2.5 rounded-md border border-line-strong px-3 py-1.5 has-checked:border-dusk-600 has-checked:bg-paper-deep sm:flex-1"
        >
          <input
            type="checkbox"
            name="way"
            value={each}
            checked={chosen.includes(each)}
            aria-invalid={problem ? true : undefined}
            onChange={() => toggle(each)}
            className="size-5 shrink-0 accent-leaf-600"
          />
          <span className="grid min-w-0 leading-5">
            <span className="text-sm font-semibold">{wayLabels[each]}</span>
            <span className="truncate text-sm text-ink-soft">{to}</span>
          </span>
        </label>
      ))}
      {problem ? (
        <p id={problemId} role="alert" className="basis-full text-sm font-semibold text-danger">
          {problem}
        </p>
      ) : null}
    </fieldset>
  );
}

interface TemplatePickerProps {
  inquiry: Inquiry;
  body: string;
  onChange(body: string): void;
}

/** Begins the reply with a template; what the member typed stays below it. */
function TemplatePicker({ inquiry, body, onChange }: TemplatePickerProps) {
  const { shop } = useShop();
  const templates = useReplyTemplates();
  const inserted = useRef('');
  if (!templates.data || templates.data.length === 0) return null;
  return (
    <div className="grid gap-1">
      <SelectField
        label="Begin with a template"
        value=""
        onChange={({ target }) => {
          const template = templates.data.find((each) => each.id === target.value);
          if (!template) return;
          const words = writeReply(template.body, { shop, ...inquiry });
          const own = body === inserted.current ? '' : body.trim();
          onChange(own ? `${words}\n\n${own}` : words);
          inserted.current = words;
        }}
      >
        <option value="">Choose a template...</option>
        {templates.data.map((template) => (
          <option key={template.id} value={template.id}>
            {template.title}
          </option>
        ))}
      </SelectField>
      <p className="text-sm">
        <Link to="/admin/messages/templates#replies" className="tap text-ink-soft underline">
          Edit the templates
        </Link>
      </p>
    </div>
  );
}

/** The length of a text as networks charge it, and what phones show instead of some characters. */
function TextInfo({ draft }: { draft: ReplyDraft }) {
  const sent = sentBody(draft, 'text');
  const { positions, limit, parts } = textLength(sent);
  return (
    <div className="grid gap-2 text-sm text-ink-soft">
      <p role="status">
        {positions} of {limit} characters{parts > 1 ? `: charged as ${parts} SMS` : ''}
        {limit === 70 ? '. A character that simple phones do not know leaves only 70.' : ''}
      </p>
      {sent === draft.body.trim() ? null : (
        <p className="wrap-anywhere whitespace-pre-wrap">
          {draft.ways.length > 1 ? 'SMS sent as' : 'Sent as'}: {sent}
        </p>
      )}
    </div>
  );
}
