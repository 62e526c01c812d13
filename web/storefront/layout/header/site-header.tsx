// The header: slogan, navigation, search, tracking. Under 768 px everything but the logo moves to the side drawer.
import { Link, useLocation } from 'react-router';
import { buttonStyle } from '../../../ui/button.tsx';
import { Icon } from '../../../ui/icons.tsx';
import { useChatLink } from '../chat-link.ts';
import { isCurrent, pages } from '../navigation.ts';
import { useShop } from '../use-shop.ts';
import { HeaderSearch } from './header-search.tsx';
import { SideDrawer } from './side-drawer.tsx';
import { Wordmark } from './wordmark.tsx';

export function SiteHeader() {
  const { settings } = useShop();
  const location = useLocation();
  const chat = useChatLink();

  return (
    <header className="sticky -top-9 z-30 border-b border-line bg-paper max-xl:static">
      <div className="on-dusk bg-dusk-900 text-dusk-100">
        <div className="page flex min-h-9 items-center justify-center gap-x-8 py-1 text-xs font-semibold md:justify-between">
          <p className="text-center">
            {settings.store_name} delivers all of its brands{' '}
            <strong className="text-ember-300">nationwide</strong>
          </p>
          <a
            href={chat}
            className="hidden min-h-7 items-center gap-2 hover:text-white hover:underline md:inline-flex"
          >
            <Icon name="chat" className="size-4" />
            Chat on WhatsApp
          </a>
        </div>
      </div>

      <div className="page flex min-h-17 items-center gap-x-3 gap-y-2 py-2 md:max-xl:flex-wrap lg:gap-x-6">
        <Link to="/" aria-label={`${settings.store_name}, home`} className="-ml-1 inline-flex rounded-md p-1">
          <Wordmark name={settings.store_name} />
        </Link>

        <nav aria-label="Main" className="hidden md:-mr-2 md:ml-auto md:block lg:-mr-3 xl:mx-0">
          <ul className="flex items-center">
            {pages.map(({ label, to }) => (
              <li key={label}>
                <Link
                  to={to}
                  prefetch="intent"
                  aria-current={isCurrent(to, location) ? 'page' : undefined}
                  className="relative inline-flex min-h-11 items-center rounded-md px-2 text-sm font-semibold text-ink-soft after:absolute after:inset-x-2 after:bottom-1.5 after:h-0.75 after:origin-left after:scale-x-0 after:rounded-pill after:bg-ember-400 after:transition-transform hover:text-ink hover:after:scale-x-100 aria-[current]:text-ink aria-[current]:after:scale-x-100 lg:px-3 lg:after:inset-x-3"
                >
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </nav>

        {/* Where one row is too narrow, these two take a second row. */}
        <div className="hidden items-center gap-x-3 md:flex md:basis-full lg:gap-x-6 xl:ml-auto xl:min-w-0 xl:flex-1 xl:basis-auto xl:justify-end">
          <div className="header-search flex-1 xl:max-w-64">
            <HeaderSearch id="header-search" />
          </div>
          <Link to="/track-order" prefetch="intent" className={`${buttonStyle('dusk')} whitespace-nowrap`}>
            <Icon name="truck" />
            Track Your Order
          </Link>
        </div>

        <SideDrawer chat={chat} />
      </div>
    </header>
  );
}
