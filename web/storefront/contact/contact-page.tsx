// Contact methods, the message form, opening hours and locations.
import { data } from 'react-router';
import { feeRange } from '../../../domain/deliveries/delivery-area.ts';
import { fillShopText, shopTextSlugs } from '../../../domain/messages/shop-text.ts';
import type { Opening } from '../../../domain/orders/opening-hours.ts';
import { isEmail } from '../../../domain/people/email.ts';
import { formatPhone } from '../../../domain/people/phone.ts';
import { withTimeout } from '../../../domain/timeout.ts';
import { visibleLength } from '../../../domain/visible-text.ts';
import { readAreas } from '../../lib/delivery-areas.ts';
import { formatDate } from '../../lib/orders/order-date.ts';
import { renderMarkdown } from '../../lib/render-markdown.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { readOpening } from '../../lib/shop-settings.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon, type IconName } from '../../ui/icons.tsx';
import { describeBreadcrumbs } from '../discovery/breadcrumbs.ts';
import { DataBlock } from '../discovery/data-block.tsx';
import { describeStore } from '../discovery/structured-data.ts';
import { useChatLink } from '../layout/chat-link.ts';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/contact-page.ts';
import { ContactForm } from './contact-form.tsx';
import { sellerColumns, sellerLines } from './seller.ts';
import { ShopTexts } from './shop-texts.tsx';

export const meta: Route.MetaFunction = ({ matches, loaderData }) =>
  describePage(matches, {
    title: 'Contact',
    description: `Call, chat or write: ${loaderData?.words.support ?? 'support'}, email answered within 24 hours. Delivery points in Westlands, Kilimani and on Ngong Road.`,
    path: '/contact',
  });

const wordsOf = (opening: Opening | null) =>
  opening
    ? {
        support: `support ${opening.hours.join(', ')}`,
        title: 'Talk to us',
        phone: 'Speak to a person.',
        chat: 'The fastest way.',
        hours: opening.hours,
        notes: opening.daysOff.map((day) => `Closed on ${day}`),
        locations: opening.hours.join(', '),
      }
    : {
        support: 'support around the clock',
        title: 'Talk to us, day or night',
        phone: 'Speak to a person, 24/7.',
        chat: 'The fastest way, also 24/7.',
        hours: null,
        notes: ['Public holidays too. Thirst does not read calendars.'],
        locations: 'Mon-Sun 8AM-10PM',
      };

export async function loader({ context }: Route.LoaderArgs) {
  const shop = context.get(shopContext);
  const { store, cacheUntil } = shop;
  const { tables } = store;
  const [texts, settings, areas] = await Promise.all([
    tables.from('shop_texts').select('slug, title, body, updated_at'),
    tables
      .from('store_settings')
      .select(
        `store_name, support_phone, support_email, delivery_fee, order_details_months, inquiries_months, payment_messages_months, opening_hours, days_off, ${sellerColumns}`,
      )
      .single(),
    readAreas(shop),
  ]);
  // Phone, chat and form work without the texts.
  if (!Array.isArray(texts.data) || typeof settings.data?.store_name !== 'string') {
    return data({ seller: [], street: '', texts: [], opening: null, words: wordsOf(null) }, { status: 503 });
  }
  const [found, { opening_hours, days_off, ...facts }] = [texts.data, settings.data];
  const opening = readOpening({ opening_hours, days_off }, cacheUntil);
  const { lowest, differs } = feeRange(areas, facts.delivery_fee);
  const quoted = { ...facts, delivery_fee: lowest, has_other_fees: differs };
  return {
    opening,
    words: wordsOf(opening),
    seller: sellerLines(facts),
    street: facts.seller_address,
    texts: shopTextSlugs.flatMap((slug) =>
      found
        .filter((text) => text.slug === slug)
        .map(({ title, body, updated_at }) => ({
          slug,
          title,
          html: renderMarkdown(fillShopText(body, quoted)),
          updated_at,
          updated: formatDate(updated_at),
        })),
    ),
  };
}

export async function action({ request, context }: Route.ActionArgs) {
  const form = await request.formData();
  // HTML forms submit line breaks as CRLF.
  const text = (name: string) =>
    String(form.get(name) ?? '')
      .replaceAll('\r\n', '\n')
      .trim();
  const email = text('email');
  const isBlank = (name: string) => visibleLength(text(name)) === 0;
  if (!isEmail(email) || ['firstName', 'lastName', 'message'].some(isBlank)) {
    return data({ isSent: false }, { status: 400 });
  }
  const { error, status } = await context
    .get(shopContext)
    .store.tables.from('inquiries')
    .insert({
      name: `${text('firstName')} ${text('lastName')}`.trim(),
      email,
      phone: text('phone') || null,
      subject: text('subject') || null,
      message: text('message'),
    });
  return error ? data({ isSent: false }, { status: status >= 400 ? status : 503 }) : { isSent: true };
}

/** Reports a request that does not reach the server as a failure, so that the typed text stays. */
export async function clientAction({ serverAction }: Route.ClientActionArgs) {
  const answer = await withTimeout(serverAction()).catch(() => null);
  return { isSent: answer?.isSent === true };
}

const locations = [
  { name: 'Westlands', address: 'Woodvale Grove, Westlands, Nairobi' },
  { name: 'Kilimani', address: 'Argwings Kodhek Road, Kilimani, Nairobi' },
  { name: 'Ngong Road', address: 'Ngong Road, by Adams Arcade, Nairobi' },
];

export default function ContactPage({ loaderData, actionData }: Route.ComponentProps) {
  const { settings, config } = useShop();
  const origin = config.publicUrl;
  const chat = useChatLink();
  const call = `tel:${settings.support_phone}`;
  const { words } = loaderData;
  const mail = `mailto:${settings.support_email}`;
  const phone = formatPhone(settings.support_phone);

  return (
    <>
      <DataBlock
        data={
          import.meta.env.SSR
            ? [
                describeStore({ origin, settings }, loaderData.opening, loaderData.street),
                describeBreadcrumbs(origin, [{ name: 'Contact', path: '/contact' }]),
              ]
            : null
        }
      />
      <header className="on-dusk overflow-hidden bg-(image:--gradient-dusk) text-white">
        <div className="page grid gap-2 pt-6 pb-20 md:gap-4 md:pt-16 md:pb-36">
          <h1 className="max-w-[8.5em] text-4xl font-extrabold md:text-hero">{words.title}</h1>
          <p className="max-w-[28em] text-sm text-white/92 md:text-lg">
            An order, a question, a party of two hundred: someone who knows the drinks will answer.
          </p>
        </div>
      </header>

      <section aria-labelledby="contact-methods" className="page relative -mt-14 md:-mt-20">
        <h2 id="contact-methods" className="sr-only">
          Ways to reach us
        </h2>
        <ul className="grid grid-cols-[minmax(0,1fr)] gap-2.5 md:grid-cols-3 md:gap-6">
          <ContactMethod icon="phone" title="Phone" text={words.phone} link={call} label={phone} />
          <ContactMethod
            icon="chat"
            title="Chat on WhatsApp"
            text={words.chat}
            link={chat}
            label={formatPhone(settings.chat_phone)}
          />
          <ContactMethod
            icon="mail"
            title="Email support"
            text="Answered within 24 hours."
            link={mail}
            label={settings.support_email}
          />
        </ul>
      </section>

      <div className="page grid grid-cols-1 gap-6 pt-8 md:gap-8 md:pt-20 lg:grid-cols-[1.6fr_1fr] lg:gap-12">
        <section aria-labelledby="message-title" className="rounded-2xl bg-card p-5 shadow-lg md:p-10">
          <h2 id="message-title" className="mb-6 text-3xl font-extrabold">
            Send us a message
          </h2>
          <ContactForm wasSent={actionData?.isSent} />
        </section>
        <div className="grid grid-cols-1 content-start gap-4 md:gap-6">
          <section aria-labelledby="hours" className="on-dusk rounded-2xl bg-dusk-900 p-6 text-white md:p-8">
            <h2 id="hours" className="flex items-center gap-3 text-2xl">
              <Icon name="clock" className="size-6 text-ember-300" />
              Business hours
            </h2>
            {words.hours ? (
              <p className="mt-4 grid gap-1 text-xl font-semibold text-leaf-300">
                {words.hours.map((line) => (
                  <span key={line}>{line}</span>
                ))}
              </p>
            ) : (
              <>
                <p className="mt-4 font-display text-hours font-extrabold tracking-tight">24/7</p>
                <p className="mt-2 font-semibold text-leaf-300">Always open</p>
              </>
            )}
            {words.notes.map((note) => (
              <p key={note} className="mt-1 text-sm text-dusk-200">
                {note}
              </p>
            ))}
          </section>
          {loaderData.seller.length > 0 ? (
            <section aria-labelledby="seller" className="rounded-2xl bg-card p-6 shadow-sm md:p-8">
              <h2 id="seller" className="mb-4 text-2xl">
                {settings.store_name}
              </h2>
              <dl className="grid gap-3">
                {loaderData.seller.map(({ name, value }) => (
                  <div key={name}>
                    <dt className="text-sm text-ink-soft">{name}</dt>
                    <dd className="font-semibold wrap-anywhere">{value}</dd>
                  </div>
                ))}
              </dl>
            </section>
          ) : null}
          <section aria-labelledby="quick" className="rounded-2xl bg-paper-deep p-6 md:p-8">
            <h2 id="quick" className="mb-4 text-2xl">
              Quick actions
            </h2>
            <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
              <a href={chat} className={buttonStyle('leaf')}>
                <Icon name="chat" />
                Chat on WhatsApp
              </a>
              <a href={call} className={buttonStyle('dusk')}>
                <Icon name="phone" />
                Call {phone}
              </a>
              <a href={mail} className={buttonStyle('outline')}>
                <Icon name="mail" />
                Send an email
              </a>
            </div>
          </section>
        </div>
      </div>

      <section aria-labelledby="locations" className="page pt-12 md:pt-24">
        <h2 id="locations" className="mb-5 text-3xl font-extrabold md:mb-8 md:text-4xl">
          Delivery locations
        </h2>
        <ul className="grid grid-cols-1 gap-3 md:grid-cols-3 md:gap-7">
          {locations.map(({ name, address }) => (
            <li
              key={name}
              className="grid grid-cols-1 content-start gap-x-3 gap-y-2 rounded-xl border-t-4 border-ember-400 bg-card p-5 shadow-sm md:gap-3 md:p-6"
            >
              <h3 className="text-2xl">{name}</h3>
              <address className="grid gap-0.5 text-ink-soft not-italic">
                <span className="flex gap-2.5">
                  <Icon name="pin" className="mt-1 size-5 text-leaf-600" />
                  {address}
                </span>
                <a
                  href={call}
                  className="inline-flex min-h-11 items-center gap-2.5 justify-self-start font-semibold text-ink hover:underline"
                >
                  <Icon name="phone" className="size-5 text-leaf-600" />
                  {phone}
                </a>
                <span className="flex gap-2.5">
                  <Icon name="clock" className="mt-1 size-5 text-leaf-600" />
                  <span>{words.locations}</span>
                </span>
              </address>
              <p className="mt-1 justify-self-start rounded-pill bg-leaf-100 px-3 py-1 text-sm font-bold text-leaf-800">
                Delivery 15-60 mins
              </p>
            </li>
          ))}
        </ul>
      </section>
      <ShopTexts texts={loaderData.texts} />
    </>
  );
}

function ContactMethod({
  icon,
  title,
  text,
  link,
  label,
}: {
  icon: IconName;
  title: string;
  text: string;
  link: string;
  label: string;
}) {
  return (
    <li className="group relative grid grid-cols-[auto_minmax(0,1fr)] content-start items-center gap-x-4 rounded-xl bg-card px-4 py-3 shadow-lg has-[a:focus-visible]:outline-3 has-[a:focus-visible]:outline-offset-2 has-[a:focus-visible]:outline-(--ring) transition-[translate,box-shadow] hover:-translate-y-1 hover:shadow-xl md:grid-cols-[minmax(0,1fr)] md:gap-1 md:p-7">
      <span className="row-span-3 grid size-12 place-items-center rounded-pill bg-ember-100 text-ember-800 md:mb-3">
        <Icon name={icon} className="size-6" />
      </span>
      <h3 className="text-lg md:text-xl">{title}</h3>
      <p className="text-sm text-ink-soft md:text-base">{text}</p>
      <a
        href={link}
        className="font-bold break-words text-leaf-700 outline-none! md:mt-2 after:absolute after:inset-0 after:rounded-xl group-hover:underline"
      >
        {label}
      </a>
    </li>
  );
}
