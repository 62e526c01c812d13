// Builds React and the router for browsers without what the shop does not use: a phone fetches them before it can answer a tap.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';

const routerFolder = new URL('../node_modules/react-router/dist/production/', import.meta.url);

/** Functions of the router whose features are switched off here, and what is left of them. */
const ofRouter: Record<string, string> = {
  // Tracing of the router, which would have to be asked for at its start.
  getRouteInstrumentationUpdates: 'return {};',
  instrumentClientSideRouter: 'return router;',
  // Routes discovered one by one: `routeDiscovery` says that the browser has them all from the beginning.
  getPatchRoutesOnNavigationFunction: 'return undefined;',
  useFogOFWarDiscovery: '',
  getPartialManifest: 'return null;',
  checkFogOfWar: 'return { active: false, matches: null };',
  discoverRoutes: 'return { type: "success", matches };',
  // Pages that melt into each other, which every link would have to ask for.
  persistAppliedTransitions: '',
  restoreAppliedTransitions: '',
  useViewTransitionState: 'return false;',
  // The words for an error that no route catches: the root's own do.
  DefaultErrorComponent: 'return null;',
  // Server components.
  RSCErrorHandler: 'return null;',
  RSCPrefetchPageLinksImpl: 'return null;',
};

/**
 * The same of React. Elements that nothing draws here (activities, lists of suspense, view transitions) it then refuses as it
 * refuses any unknown one; style sheets and scripts it draws where they stand.
 */
const ofReact: Record<string, string> = {
  ...Object.fromEntries(
    [
      'commitEnterViewTransitions',
      'commitExitViewTransitions',
      'commitNestedViewTransitions',
      'commitAppearingPairViewTransitions',
      'trackEnterViewTransitions',
      'measureNestedViewTransitions',
      'commitAfterMutationEffectsOnFiber',
      'recursivelyTraverseAfterMutationEffects',
      'createViewTransitionInstance',
      'scheduleViewTransitionEvent',
      'commitNewChildToFragmentInstance',
      'deleteChildFromFragmentInstance',
      'addFragmentHandleToFiber',
      'cutOffTailIfNeeded',
      // The browser's own sign of loading, for updates that last: the storefront shows one of its own.
      'defaultOnDefaultTransitionIndicator',
      'suspendResource',
      'preloadStylesheet',
      // Hints.
      'preconnectAs',
      'preload',
      'preloadModule',
    ].map((name) => [name, '']),
  ),
  ...Object.fromEntries(
    [
      'startViewTransition',
      'applyViewTransitionToHostInstances',
      'restoreViewTransitionOnHostInstances',
      'getViewTransitionName',
      'findFirstSuspended',
      'updateSuspenseListComponent',
      'updateActivityComponent',
      'getResource',
      'acquireResource',
    ].map((name) => [name, 'return null;']),
  ),
  ...Object.fromEntries(
    ['preinitStyle', 'preinitScript', 'preinitModuleScript'].map((name) => [
      name,
      'throw Error("left out of this build");',
    ]),
  ),
  estimateBandwidth: 'return 1;',
  // Names of components beside an error: they are shortened beyond recognition.
  getStackByFiberInDevAndProd: 'return "";',
  isHostHoistableType:
    'return 1 !== hostContext && null == props.itemProp && ("meta" === type || "title" === type || ("link" === type && ' +
    '"stylesheet" !== props.rel && "string" === typeof props.rel && "string" === typeof props.href && "" !== props.href && ' +
    '!props.onLoad && !props.onError));',
};

/** Kinds of elements of React that nothing draws here. */
const unknownElements =
  /^ *case REACT_(?:ACTIVITY|SUSPENSE_LIST|VIEW_TRANSITION)_TYPE:\n *return \(\n[\s\S]*?^ {8}\);\n/gm;
/** What can be done with a group of elements by a reference to it. */
const groupMethods = /^FragmentInstance\.prototype\.\w+ = function[\s\S]*?^\};\n/gm;
/** What only the server writes into a page, as the browser's copy of it would. */
const serversScript =
  /let routeModulesScript = !isStatic \? " " : `[\s\S]*?import\(\$\{JSON\.stringify\(manifest\.entry\.module\)\}\);`;/;

/** What the router does when the file of a page that somebody goes to is gone, such as after a new build. */
const afterMissingFile = /^( *)window\.location\.reload\(\);\n(?= *return new Promise)/m;
/** Loading the page that they are on would cost them their tap: the one they go to is loaded. */
const goOn = `$1const { location: to, formMethod } = window.__reactRouterDataRouter?.state.navigation ?? {};
$1if (to && (!formMethod || formMethod === "GET")) window.location.assign(to.pathname + to.search + to.hash);
$1else window.location.reload();
`;

/** How the router fetches the code of a page that somebody may be about to go to. */
const aheadOfTime = /\bawait loadRouteModule\(route, routeModules\)(?=;\n *return mod\.links)/;
/** Nobody has gone there yet: when it fails, nothing is to be loaded anew. */
const ifThere = 'await import(/* @vite-ignore */ route.module).catch(() => ({}))';

/**
 * Takes the router's production build, which its package does not offer to bundlers, and empties the functions above. A page
 * whose file is gone it loads as a document, once somebody goes there.
 * @throws while building, when one of the two has changed so much that this needs another look
 */
export function leanFramework(): Plugin {
  const files = new Map(
    [
      ['react-router', 'index.mjs'],
      ['react-router/dom', 'dom-export.mjs'],
    ].map(([name, file = '']) => [name, fileURLToPath(new URL(file, routerFolder))]),
  );
  // The file that both are made of.
  const [, core] =
    /from "\.\/(chunk-\w+\.mjs)";\s*export \{/.exec(
      readFileSync(new URL('index.mjs', routerFolder), 'utf8'),
    ) ?? [];
  return {
    name: 'lean-framework',
    enforce: 'pre',
    apply: 'build',
    applyToEnvironment: ({ name }) => name === 'client',
    resolveId: (id) => files.get(id),
    transform: {
      filter: { id: [/\/react-router\/dist\/production\//, /\/react-dom-client\.production\.js$/] },
      handler(code, id) {
        if (id.endsWith('react-dom-client.production.js')) return { code: leanReact(code), map: null };
        return core && id.endsWith(core) ? { code: leanRouter(code), map: null } : null;
      },
    },
  };
}

function leanRouter(code: string): string {
  return (
    [
      [serversScript, 'let routeModulesScript = " ";'] as const,
      [afterMissingFile, goOn] as const,
      [aheadOfTime, ifThere] as const,
    ]
      .reduce((lean, [what, instead]) => leave(lean, what, instead), emptied(code, ofRouter))
      // Names for developers' tools keep components alive that nobody uses.
      .replace(/^(\w+)\.displayName = "[^"]+";$/gm, '')
      .replace(/^(var \w+ = )(React\d*\.(?:forwardRef|createContext)\()/gm, '$1/* @__PURE__ */ $2')
  );
}

function leanReact(code: string): string {
  const known = leave(leave(emptied(code, ofReact), unknownElements, ''), groupMethods, '');
  // Nobody looks any more whether a change is to be melted into.
  const unmelted = leave(known, /\bviewTransitionMutationContext = !0/g, '!0');
  // React's own signals are made at once; for where an error was made a browser reads all of React a second time.
  return leave(
    unmelted,
    /\b(\w+Exception) = Error\((.*?\))\)/g,
    '$1 = Object.assign(Object.create(Error.prototype), { message: $2 })',
  );
}

/** The same code, with other bodies for some of its functions. */
function emptied(code: string, bodies: Record<string, string>): string {
  return Object.entries(bodies).reduce((lean, [name, body]) => {
    const whole = new RegExp(
      `^( *)((?:async )?function ${name}\\([\\s\\S]*?\\) \\{\\n)[\\s\\S]*?^\\1\\}$`,
      'm',
    );
    return leave(lean, whole, `$1$2${body}\n$1}`);
  }, code);
}

function leave(code: string, what: RegExp, instead: string): string {
  const lean = code.replace(what, instead);
  if (lean === code) throw new Error(`The framework is written in another way now: it has no ${what}`);
  return lean;
}
