// Component tests of staff screens: the real routes, modules and query client in happy-dom, against a running shop.
import { screen, waitFor, within } from '@testing-library/dom';
import { type UserEvent, userEvent } from '@testing-library/user-event';
import type { ComponentType } from 'react';
import { createRoot } from 'react-dom/client';
import {
  createBrowserRouter,
  type RouteObject,
  RouterContextProvider,
  RouterProvider,
  useActionData,
  useLoaderData,
  useMatches,
  useParams,
} from 'react-router';
import { expect, inject, onTestFinished } from 'vitest';
import { type Account, asOwner, makeAccount, type StaffRole, sessionOf } from '../../e2e/staff-member.ts';
import { technicalMessages } from '../../e2e/technical-messages.ts';
import { createStore } from '../../supabase/store.ts';
import { shopContext } from '../lib/shop-context.ts';
import * as rootModule from '../root.tsx';
import routes from '../routes.ts';

const given = inject('shop');

/** The shop of the component tests, in the shape that the helpers of the stories expect. */
export const shop = { ...given, keys: async () => given };

/** Reads rows with the secret key. */
export async function readRows<Row>(query: string): Promise<Row[]> {
  return (await (await asOwner(shop, `/rest/v1/${query}`, 'GET')).json()) as Row[];
}

/**
 * Replaces the response to the next request whose URL or JSON contains `part`.
 * @param answer receives a function that sends the request
 */
export function interceptNext(
  part: string,
  answer: (send: () => Promise<Response>) => Promise<Response>,
): void {
  const { fetch } = globalThis;
  const restore = () => {
    globalThis.fetch = fetch;
  };
  globalThis.fetch = (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    if (![url, String(init?.body)].some((text) => text.includes(part))) return fetch(input, init);
    restore();
    return answer(() => fetch(input, init));
  };
  onTestFinished(restore);
}

const widths = { phone: 360, desktop: 1440 };

type Entry = (typeof routes)[number];
type RouteModule = Record<string, unknown> & { default: ComponentType<Record<string, unknown>> };

const modules = import.meta.glob<RouteModule>(['../admin/**/*.{ts,tsx}', '!../admin/**/*.test.{ts,tsx}']);

/** happy-dom does not support the element `search`. */
const unknownToDom = /^The tag <%s> is unrecognized in this browser.* search$/;

/** Passes a route component its props, as React Router's build does. */
function withProps(Screen: ComponentType<Record<string, unknown>>): ComponentType {
  return function ScreenWithProps() {
    return (
      <Screen
        params={useParams()}
        loaderData={useLoaderData()}
        actionData={useActionData()}
        matches={useMatches()}
      />
    );
  };
}

async function readRoute({ id, file, path, index, children = [] }: Entry): Promise<RouteObject> {
  const read = modules[`../${file}`];
  if (!read) throw new Error(`there is no ${file}`);
  const { default: Screen, clientLoader, clientMiddleware } = await read();
  const common = {
    id: id ?? file,
    ...(path === undefined ? {} : { path }),
    Component: withProps(Screen),
    ...(clientLoader ? { loader: clientLoader as RouteObject['loader'] & object } : {}),
    ...(clientMiddleware ? { middleware: clientMiddleware as RouteObject['middleware'] & object } : {}),
  };
  return index ? { ...common, index } : { ...common, children: await Promise.all(children.map(readRoute)) };
}

async function readRoutes(): Promise<RouteObject[]> {
  const staff = routes.filter(({ file }) => file.startsWith('admin/'));
  return [
    {
      id: 'root',
      Component: rootModule.default,
      HydrateFallback: () => null,
      loader: (parameters) => rootModule.loader(parameters as never),
      children: await Promise.all(staff.map(readRoute)),
    },
  ];
}
/**
 * Reads the parts that screens load on demand, too: beside other tests, translating one of them takes longer than a test waits for an
 * element.
 */
async function readAll(): Promise<RouteObject[]> {
  const [staffRoutes] = await Promise.all([
    readRoutes(),
    import('../ui/toasts/toaster.tsx'),
    ...Object.values(modules).map((read) => read()),
  ]);
  return staffRoutes;
}
let staffRoutes: Promise<RouteObject[]> | undefined;

function makeContext(): RouterContextProvider {
  const context = new RouterContextProvider();
  context.set(shopContext, {
    store: createStore({ url: '', key: given.publishable }),
    config: {} as never,
    addCacheTags() {},
    cacheUntil() {},
    onError(error) {
      throw error;
    },
  });
  return context;
}

/**
 * The name of the button that hands an order without a rider over: it goes to the rider of the shop's last assignment, which may be
 * another test's.
 */
export const handOver = ({ order_number }: { order_number: string }): RegExp =>
  new RegExp(`^Hand over to \\S+ ${order_number}$`);

/** The dialog of an order, once it is open. */
export const dialogOf = async ({ order_number }: { order_number: string }) =>
  within(await screen.findByRole('dialog', { name: new RegExp(`^Order ${order_number}`) }));

export interface OpenScreen {
  user: UserEvent;
  /** Presses a button once it accepts presses: a busy button ignores them. */
  press(button: HTMLElement): Promise<void>;
  /** Types into a field, in place of what is in it. */
  fill(field: HTMLElement, text: string): Promise<void>;
  account: Account;
  /** The path and the parameters in the address bar. */
  address(): string;
}

let closeScreen = () => {};

/**
 * Opens a staff screen as a new staff member, in place of the one before, until the end of the test. Fails the test on console errors, and on
 * toasts and alerts with technical messages.
 */
export async function openScreen(
  path: string,
  { on = 'desktop', role, expected }: { on?: keyof typeof widths; role?: StaffRole; expected?: RegExp } = {},
): Promise<OpenScreen> {
  // Two would write the number of what waits into the same title, each in answer to the other.
  closeScreen();
  const account = await makeAccount(shop, 'staff', crypto.randomUUID(), role);
  localStorage.setItem('jani.staff', JSON.stringify(await sessionOf(shop, account)));
  const { happyDOM } = window as unknown as {
    happyDOM: { setViewport(size: { width: number; height: number }): void };
  };
  happyDOM.setViewport({ width: widths[on], height: 900 });
  window.history.replaceState(null, '', path);

  const consoleMessages: string[] = [];
  const { error, warn } = console;
  console.error = console.warn = (...parts: unknown[]) => {
    const text = parts.map(String).join(' ');
    if (!unknownToDom.test(text) && !expected?.test(text)) consoleMessages.push(text);
  };
  const messages = new Set<string>();
  const observer = new MutationObserver(() => {
    for (const element of document.querySelectorAll(
      '[data-sonner-toast], [role=alert], [role=alertdialog]',
    )) {
      if (element.textContent) messages.add(element.textContent);
    }
  });
  observer.observe(document.body, { subtree: true, childList: true, characterData: true });

  staffRoutes ??= readAll();
  const router = createBrowserRouter(await staffRoutes, { getContext: makeContext });
  const container = document.createElement('div');
  document.body.append(container);
  const root = createRoot(container);
  root.render(<RouterProvider router={router} />);
  closeScreen = () => {
    closeScreen = () => {};
    root.unmount();
    router.dispose();
    container.remove();
  };
  onTestFinished(() => {
    closeScreen();
    observer.disconnect();
    Object.assign(console, { error, warn });
    localStorage.clear();
    sessionStorage.clear();
    // As a text, which a report quotes.
    expect(consoleMessages.join('\n'), 'the console').toBe('');
    expect(technicalMessages([...messages]), 'toasts and alerts').toEqual([]);
  });
  await screen.findByText(`Welcome, ${account.email}`);
  const user = userEvent.setup({ pointerEventsCheck: 0 });
  return {
    user,
    async press(button) {
      await waitFor(() => expect(button.getAttribute('aria-disabled'), 'the button is busy').toBeNull());
      await user.click(button);
    },
    async fill(field, text) {
      await user.clear(field);
      await user.click(field);
      // The text goes where the focus is, and a screen that took it would be found out much later.
      const focused = document.activeElement;
      if (focused !== field)
        throw new Error(
          `the focus went to ${focused?.outerHTML.slice(0, 200)}, ${field.isConnected ? '' : 'the field is gone'}`,
        );
      await user.paste(text);
    },
    account,
    address: () => window.location.pathname + window.location.search,
  };
}
