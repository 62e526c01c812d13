// The layout of every staff screen, and its guard: only active staff are admitted.
import { QueryClientProvider, useIsFetching } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useMemo, useRef, useState } from 'react';
import { Link, Outlet, redirect, useLocation, useNavigation, useRevalidator } from 'react-router';
import { onStaffStatusChange, type Staff } from '../../lib/staff.ts';
import { Button } from '../../ui/button.tsx';
import { SkipLink } from '../../ui/skip-link.tsx';
import { dismissAllToasts, prepareToasts, showToast } from '../../ui/toasts/toasts.tsx';
import { useAction } from '../../ui/use-action.ts';
import { useIsOnline } from '../../ui/use-is-online.ts';
import { EarlyRequests } from '../data/early-requests.tsx';
import { queryClient } from '../data/query-client.ts';
import { hasUnsavedChanges, UnsavedScope } from '../dialogs/use-unsaved.tsx';
import { LiveStateContext } from '../live/live-state.ts';
import { useFailedQueries } from '../live/use-failed-queries.ts';
import type { LiveState } from '../live/use-live-changes.ts';
import { useWaiting } from '../live/use-waiting.ts';
import { NoticesButton } from '../notices/notices-button.tsx';
import { firstOrdersRequest } from '../orders/list/first-orders-request.ts';
import { useNewOrderKey } from '../orders/new/new-order-link.tsx';
import { useIsCounter } from '../today/counter/use-is-counter.ts';
import { PanelLoading } from '../ui/panel-loading.tsx';
import { ProgressBar } from '../ui/progress-bar.tsx';
import { usePart } from '../ui/use-part.ts';
import { UndoBar } from '../undo/undo-bar.tsx';
import { withdrawAll } from '../undo/undoable-changes.ts';
import type { Route } from './+types/staff-layout.ts';
import { LiveDot } from './live-dot.tsx';
import { type Member, memberContext } from './roles/member.ts';
import { mayOpen } from './roles/screen-areas.ts';
import { MemberScope } from './roles/use-member.tsx';
import { BottomBar } from './sidebar/bottom-bar.tsx';
import { Sidebar, SidebarDrawer } from './sidebar/sidebar.tsx';
import { StaffIcon } from './sidebar/staff-icons.tsx';
import { useSidebar } from './sidebar/use-sidebar.ts';
import { describeStaffPage, staffFor } from './staff-page.ts';
import { useStoreName } from './use-store-name.ts';
import './staff.css';

const loadAfterFirstScreen = () => import('./after-first-screen.ts');
const loadNotForRole = () => import('./roles/not-for-role.tsx');
const loadSessionEnded = () => import('./session-ended.tsx');

/** The last admitted staff member of this tab; null if the next screen must check first. */
let admitted: Member | null = null;
/** The staff member of these screens, also during a new check. */
let shownMember: Member | null = null;
/** Set by this tab's Sign Out button: the sign-in page follows, not the dialog over the screen. */
let isSigningOut = false;

const guard: Route.ClientMiddlewareFunction = async ({ request, context }, next) => {
  const staff = staffFor(request);
  // Between screens the check runs concurrently and does not delay the next screen: row level security protects its
  // data. A navigation to the current URL waits for the check (`request.url` has no fragment).
  let member = admitted;
  const isSameAddress = request.url === window.location.href.replace(/#.*$/, '');
  if (member?.staff !== staff || isSameAddress) {
    const status = await staff.status();
    member =
      status.is === 'staff'
        ? { staff, id: status.id, email: status.email, role: status.role, name: status.name }
        : null;
    // A failed connection does not revoke an admission; the services authorise each request.
    if (status.is === 'not staff' && status.isUnanswered && shownMember?.staff === staff)
      member = shownMember;
    // An outdated response must not replace a newer one.
    if (!request.signal.aborted) admitted = member;
    // Sessions also end elsewhere or expire. Without a sign-out in this tab, the member signs in again and continues.
    const canSignInAgain = (status.is === 'signed out' || status.is === 'second step') && !isSigningOut;
    if (canSignInAgain && shownMember?.staff === staff) {
      context.set(memberContext, {
        ...shownMember,
        ended: { status, hasUnsaved: hasUnsavedChanges() },
      });
      return next();
    }
    if (!member) throw redirect('/admin/login');
    shownMember = member;
  }
  context.set(memberContext, member);
  return next();
};

export const clientMiddleware: Route.ClientMiddlewareFunction[] = [guard];

export async function clientLoader({ context }: Route.ClientLoaderArgs) {
  return context.get(memberContext);
}
clientLoader.hydrate = true as const;

export const meta: Route.MetaFunction = ({ matches }) => describeStaffPage(matches, 'Staff');

export function HydrateFallback() {
  return (
    <main className="grid min-h-dvh place-items-center">
      <PanelLoading label="Loading admin panel..." />
      <EarlyRequests orders={firstOrdersRequest} />
    </main>
  );
}

export default function StaffLayout({
  loaderData: { staff, id, email, role, name, ended },
}: Route.ComponentProps) {
  const member = useMemo(() => ({ staff, id, email, role, name }), [staff, id, email, role, name]);
  // The next user of this device must not see data of this one.
  useEffect(() => {
    isSigningOut = false;
    return () => {
      admitted = null;
      shownMember = null;
      queryClient.clear();
      withdrawAll();
      void dismissAllToasts();
    };
  }, []);
  const { revalidate } = useRevalidator();
  // Revalidation runs the guard again, also together with a step to another screen.
  useEffect(
    () =>
      onStaffStatusChange(staff, () => {
        admitted = null;
        void revalidate();
      }),
    [staff, revalidate],
  );
  // Decided when the session ends, because the dialog itself contains a form.
  const retainsScreen = useRef(true);
  const wasEnded = useRef(false);
  if (ended && !wasEnded.current) retainsScreen.current = ended.hasUnsaved;
  wasEnded.current = ended !== undefined;
  const isCleared = ended !== undefined && !retainsScreen.current;
  useEffect(() => {
    if (isCleared) queryClient.clear();
    if (!ended) return;
    withdrawAll();
    void dismissAllToasts();
  }, [isCleared, ended]);
  const sessionEnded = usePart(loadSessionEnded, ended !== undefined);
  return (
    <QueryClientProvider client={queryClient}>
      <MemberScope value={member}>
        {/* A new user starts without state of the previous one. */}
        {isCleared ? null : (
          <UnsavedScope key={id}>
            <Panel {...member} isSignedOut={ended !== undefined} />
          </UnsavedScope>
        )}
        {ended && sessionEnded ? (
          <sessionEnded.SessionEnded
            staff={staff}
            email={email}
            status={ended.status}
            hasUnsaved={retainsScreen.current}
          />
        ) : ended ? (
          <SessionEndedCover />
        ) : null}
      </MemberScope>
    </QueryClientProvider>
  );
}

/** Hides the screen beneath until the sign-in dialog has loaded, or instead. */
function SessionEndedCover() {
  return (
    <div className="on-dusk fixed inset-0 z-60 grid place-content-center gap-2 bg-(image:--gradient-dusk) p-4 text-center text-white">
      <p>Your session has ended.</p>
      <a href="/admin/login" className="tap font-semibold underline">
        Sign in again
      </a>
    </div>
  );
}

function Panel({ staff, email, name, role, isSignedOut }: Member & { isSignedOut: boolean }) {
  const main = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  const isNavigating = useNavigation().state === 'loading';
  const storeName = useStoreName();
  const isCounter = useIsCounter();
  const isForRole = mayOpen(role, pathname);
  const notForRole = usePart(loadNotForRole, !isForRole);
  useNewOrderKey(
    !isCounter && !isSignedOut && pathname !== '/admin/orders/new' && mayOpen(role, '/admin/orders/new'),
  );
  const { isExpanded, drawer, isDrawerOpen, onDrawerClose, toggle } = useSidebar();
  const waiting = useWaiting(['/admin/orders', '/admin/today'].includes(screenOf(pathname)));
  const isOnline = useIsOnline();
  // Loads the code of toasts in advance, because failures are announced offline too.
  useEffect(() => {
    prepareToasts().catch(() => {});
  }, []);
  const [hasShown, setHasShown] = useState(false);
  const [channelState, setChannelState] = useState<LiveState>('connecting');
  const live = isOnline ? channelState : 'lost';
  // Tried again when the connection is back.
  const after = usePart(loadAfterFirstScreen, hasShown && isOnline);
  // It renews the session and follows the other tabs.
  useEffect(() => {
    if (hasShown && isOnline) staff.auth().catch(() => {});
  }, [hasShown, isOnline, staff]);
  useFailedQueries();

  const shownPath = useRef(pathname);
  useEffect(() => {
    if (shownPath.current === pathname) return;
    const [before, now] = [shownPath.current, pathname].map(screenOf);
    shownPath.current = pathname;
    void staff.checkSession();
    // Within a screen, such as from the list to one of its orders, the focus stays where it is, unless its element is gone.
    const isLost = document.activeElement === document.body;
    // A form may begin with a focused field of its own.
    const isInScreen =
      document.activeElement !== main.current && main.current?.contains(document.activeElement) === true;
    if ((before !== now && !isInScreen) || isLost) main.current?.focus({ preventScroll: true });
  }, [pathname, staff]);

  return (
    <div className="flex min-h-dvh">
      <SkipLink
        // The blocker of unsaved forms warns of steps in the history that the router did not make.
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
      />
      <ProgressBar isRunning={isNavigating} />
      {isCounter ? null : <Sidebar storeName={storeName} waiting={waiting} isExpanded={isExpanded} />}
      <SidebarDrawer
        storeName={storeName}
        waiting={waiting}
        drawer={drawer}
        isOpen={isDrawerOpen}
        onClose={onDrawerClose}
      />
      <div className="min-w-0 flex-1">
        {isCounter ? null : (
          <header className="sticky top-0 z-30 flex items-center gap-x-1.5 border-b border-line bg-card px-3 py-2 max-[22rem]:gap-x-0.5 md:px-5 lg:gap-x-3">
            <button
              type="button"
              onClick={toggle}
              aria-label="Toggle sidebar"
              aria-keyshortcuts="Control+B Meta+B"
              className="grid size-11 shrink-0 place-items-center rounded-md text-ink-soft transition-colors hover:bg-paper-deep hover:text-ink max-md:hidden"
            >
              <StaffIcon name="sidebar" />
            </button>
            {/* Offers to undo a change lie over these words. */}
            <div
              data-undo-place
              className="min-w-0 flex-1 lg:flex lg:items-center lg:justify-between lg:gap-4"
            >
              <p className="flex items-center gap-2">
                <span className="truncate font-display text-lg leading-6 font-bold max-[22rem]:text-base">
                  Admin Panel
                </span>
                <LiveDot state={live} />
              </p>
              <p className="truncate text-xs text-ink-soft lg:text-sm">Welcome, {name || email}</p>
            </div>
            <NoticesButton />
            <Link
              to="/admin/account"
              title="Your account"
              aria-label="Your account"
              className="flex min-h-11 min-w-11 shrink-0 items-center justify-center gap-1.5 rounded-md px-1.5 text-sm font-semibold text-ink-soft no-underline transition-colors hover:bg-paper-deep hover:text-ink max-md:hidden"
            >
              <StaffIcon name="account" />
              Account
            </Link>
            <SignOut staff={staff} />
          </header>
        )}
        <main
          ref={main}
          id="main"
          tabIndex={-1}
          // Space below the last row, so that toasts and the bar of a phone cover none of its buttons.
          className={
            isCounter
              ? 'relative h-dvh overflow-y-auto outline-none!'
              : 'mx-auto w-full max-w-[80rem] px-4 pt-2 pb-32 outline-none! md:px-6 md:pt-5'
          }
        >
          {after && !isCounter ? <after.StaffNotices /> : null}
          <LiveStateContext value={live}>
            {isForRole ? <Outlet context={waiting} /> : notForRole ? <notForRole.NotForRole /> : null}
          </LiveStateContext>
        </main>
      </div>
      {isCounter ? null : <BottomBar waiting={waiting} isMenuOpen={isDrawerOpen} onMenu={toggle} />}
      {/* Of each header its own, over whose words it lies. */}
      <UndoBar key={String(isCounter)} />
      {after ? (
        <>
          <after.LiveChanges isActive={!isSignedOut} onState={setChannelState} />
          <after.DeviceNotices waiting={waiting} isActive={!isSignedOut} />
        </>
      ) : null}
      {hasShown ? null : <FirstData onShown={() => setHasShown(true)} />}
      {/* Preloads the page to which signing out leads, also without a network. Last, because the first link skips to the content. */}
      {hasShown ? <Link to="/admin/login" prefetch="render" hidden /> : null}
    </div>
  );
}

/**
 * Reports once that the first screen has its data, or has failed to read it: what it does not show is loaded afterwards. It follows the
 * screen, whose effects have started their queries before this one counts them. A component, because the count renders its owner again.
 */
function FirstData({ onShown }: { onShown: () => void }) {
  const reading = useIsFetching();
  const report = useEffectEvent(onShown);
  useEffect(() => {
    if (reading === 0 && queryClient.isFetching() === 0) report();
  }, [reading]);
  return null;
}

/** '/admin/orders' of '/admin/orders/{id}'. */
const screenOf = (pathname: string): string => pathname.split('/', 3).join('/');

function SignOut({ staff }: { staff: Staff }) {
  const { isRunning, run } = useAction();
  const leave = () =>
    run(
      async () => {
        isSigningOut = true;
        // The shop ends the subscription with the session, if it can be reached.
        void import('../notices/device-notifications.ts').then(
          ({ unsubscribeDevice }) => unsubscribeDevice(),
          () => {},
        );
        // Only this session; the account page ends the others.
        await staff.signOut();
      },
      (error) => {
        isSigningOut = false;
        console.warn('Signing out failed', error);
        showToast({ kind: 'error', title: 'Error', text: 'Signing out failed. Please try again.' });
      },
    );
  return (
    <Button
      tone="quiet"
      onClick={leave}
      isBusy={isRunning}
      className="shrink-0 whitespace-nowrap max-md:bg-transparent max-md:px-2 max-md:font-semibold max-md:text-ink-soft"
    >
      Sign Out
    </Button>
  );
}

export function ErrorBoundary() {
  const { revalidate, state } = useRevalidator();
  return (
    <main className="grid min-h-dvh place-items-center px-4">
      <div role="alert" className="grid max-w-text justify-items-center gap-4 text-center">
        <h1 className="text-2xl">This screen could not be loaded</h1>
        <p className="text-ink-soft">Nothing was changed. Please check the connection and try again.</p>
        <Button onClick={() => void revalidate()} isBusy={state === 'loading'}>
          Try again
        </Button>
      </div>
    </main>
  );
}
