// The footer: all pages, contact methods, the newsletter.
import { Link } from 'react-router';
import { formatPhone } from '../../../domain/people/phone-format.ts';
import { Icon } from '../../ui/icons.tsx';
import { NewsletterForm } from '../newsletter/newsletter-form.tsx';
import { useChatLink } from './chat-link.ts';
import { Wordmark } from './header/wordmark.tsx';
import { pages, shopTextPath } from './navigation.ts';
import { useShop } from './use-shop.ts';

const explore = pages.slice(0, 4);
const help = [
  { label: 'Delivery', to: '/delivery' },
  { label: 'Track Your Order', to: '/track-order' },
  { label: 'Contact', to: '/contact' },
  { label: 'FAQ', to: shopTextPath('faq') },
  { label: 'Contact Support', to: '/contact' },
];
const legal = [
  { label: 'Privacy Policy', to: shopTextPath('privacy') },
  { label: 'Terms of Service', to: shopTextPath('terms') },
];

function Links({ title, links }: { title: string; links: { label: string; to: string }[] }) {
  return (
    <nav aria-label={title}>
      <h2 className="caps mb-2 text-dusk-300">{title}</h2>
      <ul>
        {links.map(({ label, to }) => (
          <li key={label}>
            <Link
              to={to}
              prefetch="intent"
              className="inline-flex min-h-11 items-center hover:text-ember-300 hover:underline"
            >
              {label}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

export function SiteFooter() {
  const { settings, year } = useShop();
  const chat = useChatLink();
  const social = (
    [
      { name: 'instagram', label: 'Instagram', href: settings.instagram_url },
      { name: 'facebook', label: 'Facebook', href: settings.facebook_url },
      { name: 'tiktok', label: 'TikTok', href: settings.tiktok_url },
    ] as const
  ).filter(({ href }) => href !== '');

  return (
    <footer className="on-dusk relative overflow-hidden bg-dusk-950 text-dusk-100">
      <div aria-hidden="true" className="fruit-line" />
      <div className="page grid grid-cols-1 gap-x-10 gap-y-12 py-16 md:grid-cols-[1.1fr_1fr] lg:grid-cols-[1.5fr_0.7fr_0.8fr_1.4fr]">
        <div className="grid grid-cols-1 content-start gap-5">
          <Link
            to="/"
            aria-label={`${settings.store_name}, home`}
            className="inline-flex min-h-11 items-center justify-self-start rounded-md"
          >
            <Wordmark name={settings.store_name} isOnDusk />
          </Link>
          <p className="max-w-xs text-dusk-200">
            Khat from Meru, fruit from Embu, delivered ice-cold while the evening is still young.
          </p>
          <ul className="flex flex-wrap gap-2">
            {social.map(({ name, label, href }) => (
              <li key={name}>
                <a
                  href={href}
                  rel="noreferrer"
                  aria-label={`${settings.store_name} on ${label}`}
                  className="grid size-11 place-items-center rounded-pill border border-white/25 hover:border-ember-300 hover:text-ember-300"
                >
                  <Icon name={name} />
                </a>
              </li>
            ))}
          </ul>
        </div>
        <div className="grid grid-pairs gap-8 lg:contents">
          <Links title="Explore" links={explore} />
          <Links title="Help" links={help} />
        </div>
        <div className="grid grid-cols-1 content-start gap-8 md:col-span-2 md:grid-cols-2 lg:col-span-1 lg:grid-cols-1">
          <section aria-labelledby="newsletter-title" className="grid grid-cols-1 content-start gap-3">
            <h2 id="newsletter-title" className="text-xl text-white">
              New flavors, first
            </h2>
            <p className="text-sm text-dusk-200">
              A short note when something new leaves the press. Nothing else.
            </p>
            <NewsletterForm />
          </section>
          <address className="grid grid-cols-1 content-start justify-items-start text-sm not-italic wrap-anywhere">
            <a
              href={chat}
              className="inline-flex min-h-11 items-center gap-3 hover:text-ember-300 hover:underline"
            >
              <Icon name="chat" />
              WhatsApp chat: {formatPhone(settings.chat_phone)}
            </a>
            <a
              href={`mailto:${settings.support_email}`}
              className="inline-flex min-h-11 items-center gap-3 hover:text-ember-300 hover:underline"
            >
              <Icon name="mail" />
              {settings.support_email}
            </a>
          </address>
        </div>
      </div>
      <div className="border-t border-white/12">
        <div className="page flex flex-wrap items-center justify-between gap-x-8 py-3 text-sm text-dusk-200">
          <p>
            © {year} {settings.store_name}. All rights reserved.
          </p>
          <ul className="flex flex-wrap gap-x-6">
            {legal.map(({ label, to }) => (
              <li key={label}>
                <Link
                  to={to}
                  className="inline-flex min-h-11 items-center hover:text-ember-300 hover:underline"
                >
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      </div>
    </footer>
  );
}
