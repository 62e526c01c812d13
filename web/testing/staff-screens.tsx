// Component tests of staff screens: the genuine routes, modules and query client in a DOM without layout, before a genuine shop.
import { screen, waitFor } from '@testing-library/dom';
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
import { type Account, asOwner, makeAccount, sessionOf } from '../../e2e/staff-member.ts';
import { technicalMessages } from '../../e2e/technical-messages.ts';
import { shopContext } from '../lib/shop-context.ts';
import { createStore } from '../lib/store.ts';
import * as rootModule from '../root.tsx';
import routes from '../routes.ts';

const given = inject('shop');

/** The shop of the component tests, as the stories' helpers take it. */
export const shop = { ...given, keys: async () => given };

/** Reads rows with the secret key. */
export async function readRows<Row>(query: string): Promise<Row[]> {
  return (await (await asOwner(shop, `/rest/v1/${query}`, 'GET')).json()) as Row[];
}

/**
 * Replaces the next request whose URL contains a text.
 * @param answer gets what sends it after all
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
    if (!String(input instanceof Request ? input.url : input).includes(part)) return fetch(input, init);
    restore();
    return answer(() => fetch(input, init));
  };
  onTestFinished(restore);
}

const widths = { phone: 360, desktop: 1440 };

type Entry = (typeof routes)[number];
type RouteModule = Record<string, unknown> & { default: ComponentType<Record<string, unknown>> };

const modules = import.meta.glob<RouteModule>('../admin/**/*.{ts,tsx}');

/** happy-dom does not know the element `search`, which browsers do. */
const unknownToDom = /^The tag <%s> is unrecognized in this browser.* search$/;

/** Gives a route's component its props, as React Router's build does. */
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
let staffRoutes: Promise<RouteObject[]> | undefined;

function makeContext(): RouterContextProvider {
  const context = new RouterContextProvider();
  context.set(shopContext, {
    store: createStore({ url: '', key: given.publishable }),
    config: {} as never,
    madeFrom() {},
    onError(error) {
      throw error;
    },
  });
  return context;
}

export interface OpenScreen {
  user: UserEvent;
  /** Presses a button once it accepts that: one that is busy ignores presses. */
  press(button: HTMLElement): Promise<void>;
  account: Account;
  /** The path and the parameters in the address bar. */
  address(): string;
}

/**
 * Opens a staff screen as a new member of staff, until the end of the test. Fails it at complaints of the console, and at toasts and
 * alerts with technical words.
 */
export async function openScreen(
  path: string,
  { on = 'desktop', expected }: { on?: keyof typeof widths; expected?: RegExp } = {},
): Promise<OpenScreen> {
  const account = await makeAccount(shop, 'staff', crypto.randomUUID());
  localStorage.setItem('jani.staff', JSON.stringify(await sessionOf(shop, account)));
  const { happyDOM } = window as unknown as {
    happyDOM: { setViewport(size: { width: number; height: number }): void };
  };
  happyDOM.setViewport({ width: widths[on], height: 900 });
  window.history.replaceState(null, '', path);

  const complaints: string[] = [];
  const { error, warn } = console;
  console.error = console.warn = (...parts: unknown[]) => {
    const text = parts.map(String).join(' ');
    if (!unknownToDom.test(text) && !expected?.test(text)) complaints.push(text);
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

  staffRoutes ??= readRoutes();
  const router = createBrowserRouter(await staffRoutes, { getContext: makeContext });
  const place = document.createElement('div');
  document.body.append(place);
  const root = createRoot(place);
  root.render(<RouterProvider router={router} />);
  onTestFinished(() => {
    root.unmount();
    router.dispose();
    place.remove();
    observer.disconnect();
    Object.assign(console, { error, warn });
    localStorage.clear();
    sessionStorage.clear();
    expect(complaints, 'the console').toEqual([]);
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
    account,
    address: () => window.location.pathname + window.location.search,
  };
}
