// Delivery information: time, cooling, areas and fee.
import { Link } from 'react-router';
import { isForTheRest } from '../../../domain/deliveries/delivery-area.ts';
import { readAreas } from '../../lib/delivery-areas.ts';
import { describeFee } from '../../lib/fee-words.ts';
import { shopContext } from '../../lib/shop-context.ts';
import { defaultShopSettings, readOpening, readShopSettings } from '../../lib/shop-settings.ts';
import { buttonStyle } from '../../ui/button.tsx';
import { Icon, type IconName } from '../../ui/icons.tsx';
import { describeBreadcrumbs } from '../discovery/breadcrumbs.ts';
import { DataBlock } from '../discovery/data-block.tsx';
import { describePage } from '../layout/page-meta.ts';
import { useShop } from '../layout/use-shop.ts';
import type { Route } from './+types/delivery-page.ts';

export const meta: Route.MetaFunction = ({ matches, loaderData }) =>
  describePage(matches, {
    title: 'Delivery information',
    description: `Cold drinks at your door in 15-60 minutes anywhere in Nairobi${loaderData ? `, ${loaderData.words.days}` : ''}. Fees, coverage areas and answers.`,
    path: '/delivery',
  });

const features: { icon: IconName; title: string; text: string }[] = [
  {
    icon: 'truck',
    title: 'Fast delivery',
    text: 'A rider leaves as soon as your payment is in. In Nairobi that means 15 to 60 minutes, traffic on Mombasa Road included.',
  },
  {
    icon: 'snow',
    title: 'Cold and fresh',
    text: 'Bottles go from the fridge into an insulated box and are handed to you with the frost still on them.',
  },
  {
    icon: 'pin',
    title: 'Order tracking',
    text: 'You get a tracking number with every order and watch it move from our counter to your gate.',
  },
];

/** Without areas for all other places. */
export async function loader({ context }: Route.LoaderArgs) {
  const shop = context.get(shopContext);
  const [areas, { data: settings }] = await Promise.all([readAreas(shop), readShopSettings(shop.store)]);
  const fee = describeFee(areas, (settings ?? defaultShopSettings).delivery_fee);
  const opening = readOpening(settings, shop.cacheUntil);
  const hours = opening?.hours.join(', ');
  const daysOff = opening && opening.daysOff.length > 0 ? ` Days off: ${opening.daysOff.join('; ')}.` : '';
  return {
    areas: areas.filter((area) => !isForTheRest(area)).map(({ name }) => name),
    words: {
      fee: fee.card,
      feeAnswer: fee.answer,
      days: hours ?? 'seven days a week',
      lead: opening ? 'All over Nairobi' : 'Every day of the week, all over Nairobi',
      hours: hours ? `${hours}.${daysOff}` : '7 days a week, holidays included.',
      hoursAnswer: hours
        ? `We deliver ${hours}.${daysOff}`
        : 'Yes. We deliver 7 days a week, public holidays included.',
    },
  };
}

type Words = Route.ComponentProps['loaderData']['words'];

function questions({ feeAnswer, hoursAnswer }: Words) {
  return [
    {
      question: 'How long does delivery take?',
      answer:
        '15 to 60 minutes within Nairobi, depending on where you are and how the roads feel about it. Outside Nairobi we agree on a time with you.',
    },
    { question: 'What does delivery cost?', answer: feeAnswer },
    { question: 'Do you deliver at weekends and on holidays?', answer: hoursAnswer },
    {
      question: 'Do you deliver outside Nairobi?',
      answer:
        "We send all of our brands nationwide. Call or text us first and we'll tell you when we can get it to you.",
    },
    {
      question: 'How do I follow my order?',
      answer:
        'Enter the tracking number, such as JJ-20250126-1234, on the tracking page. It shows every step, from our fridge to your gate.',
    },
    {
      question: 'How do I pay?',
      answer:
        'By M-PESA. After ordering, a prompt appears on your phone; enter your PIN and the order is on its way. No account needed.',
    },
  ];
}

export default function DeliveryPage({ loaderData: { areas, words } }: Route.ComponentProps) {
  const { config } = useShop();
  const trail = [{ name: 'Delivery', path: '/delivery' }];
  return (
    <>
      <DataBlock data={import.meta.env.SSR ? [describeBreadcrumbs(config.publicUrl, trail)] : null} />
      <header className="on-dusk relative overflow-hidden bg-sky-cold text-white">
        <picture className="contents">
          <source
            media="(min-width: 640px)"
            type="image/avif"
            srcSet="/art/hero-cold-wide-960.avif 960w, /art/hero-cold-wide-1600.avif 1600w"
            sizes="100vw"
          />
          <source
            media="(min-width: 640px)"
            srcSet="/art/hero-cold-wide-960.webp 960w, /art/hero-cold-wide-1600.webp 1600w"
            sizes="100vw"
          />
          <source
            type="image/avif"
            srcSet="/art/hero-cold-tall-480.avif 480w, /art/hero-cold-tall-720.avif 720w, /art/hero-cold-tall-900.avif 900w"
            sizes="99vw"
          />
          <img
            src="/art/hero-cold-tall-900.webp"
            srcSet="/art/hero-cold-tall-480.webp 480w, /art/hero-cold-tall-720.webp 720w, /art/hero-cold-tall-900.webp 900w"
            sizes="99vw"
            alt=""
            width={900}
            height={1000}
            fetchPriority="high"
            // Not cropped at any width: on desktops its left edge fades into the sky.
            className="absolute inset-x-0 bottom-0 aspect-9/10 w-full mask-t-from-75% mask-t-to-100% object-cover sm:aspect-video lg:left-auto lg:h-full lg:w-auto lg:mask-t-from-100% lg:mask-l-from-70% lg:mask-l-to-100%"
          />
        </picture>
        <div className="page relative grid min-h-[calc(17rem+80vw)] content-start gap-4 pt-10 pb-10 sm:min-h-[calc(9rem+50vw)] lg:min-h-[36rem] lg:content-center lg:py-20">
          <h1 className="max-w-[6.7em] text-hero font-extrabold">Cold at your door</h1>
          <p className="max-w-[20.5em] text-lg font-medium text-white/92 lg:text-xl">
            {words.lead}, before the ice has a chance to melt.
          </p>
        </div>
      </header>

      <section aria-labelledby="how" className="page grid gap-5 pt-14 md:grid-cols-3 md:gap-7 md:pt-20">
        <h2 id="how" className="sr-only">
          How we deliver
        </h2>
        {features.map(({ icon, title, text }) => (
          <article key={title} className="grid content-start gap-2 rounded-xl bg-card p-7 shadow-md">
            <span className="mb-2 grid size-12 place-items-center rounded-pill bg-leaf-100 text-leaf-800">
              <Icon name={icon} className="size-6" />
            </span>
            <h3 className="text-2xl">{title}</h3>
            <p className="text-ink-soft">{text}</p>
          </article>
        ))}
      </section>

      <section aria-labelledby="timeframe" className="page pt-16 md:pt-24">
        <div className="on-dusk grid grid-cols-1 gap-8 overflow-hidden rounded-2xl bg-[linear-gradient(115deg,var(--color-dusk-900)_35%,var(--color-afterglow)_80%,var(--color-ember-500)_120%)] p-7 text-white md:grid-cols-[1.2fr_1fr] md:items-end md:p-14">
          <div className="grid gap-3">
            <p className="caps text-ember-300">Within Nairobi</p>
            <h2 id="timeframe" className="text-time font-extrabold tracking-tight">
              15-60 Minutes
            </h2>
          </div>
          <div className="grid grid-cols-1 gap-5">
            <p className="text-lg text-white/92">
              {words.fee} {words.hours}
            </p>
            <div className="flex flex-wrap gap-3">
              <Link to="/track-order" prefetch="intent" className={buttonStyle('ember', 'large')}>
                Track Your Order
              </Link>
              <Link to="/contact" prefetch="intent" className={buttonStyle('glass', 'large')}>
                Contact Us
              </Link>
            </div>
          </div>
        </div>
      </section>

      <div className="page grid gap-x-16 gap-y-16 pt-20 md:pt-28 lg:grid-cols-[1fr_1.15fr]">
        <section aria-labelledby="areas">
          <h2 id="areas" className="mb-2 text-4xl font-extrabold">
            Coverage areas
          </h2>
          <p className="mb-7 text-lg text-ink-soft">
            {areas.length === 15 ? 'Fifteen' : areas.length} corners of the city we know by heart.
          </p>
          <ul className="flex flex-wrap gap-2.5">
            {areas.map((area) => (
              <li
                key={area}
                className="inline-flex min-h-11 items-center gap-2 rounded-pill bg-paper-deep px-4 font-semibold"
              >
                <Icon name="pin" className="size-4.5 text-ember-600" />
                {area}
              </li>
            ))}
          </ul>
        </section>
        <section aria-labelledby="faq">
          <h2 id="faq" className="mb-5 text-4xl font-extrabold">
            Frequently asked questions
          </h2>
          <div className="border-t border-line">
            {questions(words).map(({ question, answer }, index) => (
              <details key={question} open={index === 0} className="group border-b border-line">
                <summary className="flex min-h-15 list-none items-center justify-between gap-4 rounded-sm py-3 font-display text-xl font-bold [&::-webkit-details-marker]:hidden hover:text-leaf-700">
                  {question}
                  <Icon
                    name="plus"
                    className="size-6 text-ember-600 transition-[rotate] duration-(--duration-slow) group-open:rotate-45"
                  />
                </summary>
                <p className="max-w-text pb-5 text-ink-soft">{answer}</p>
              </details>
            ))}
          </div>
        </section>
      </div>
    </>
  );
}
