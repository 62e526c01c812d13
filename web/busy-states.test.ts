// No exception leaves a form locked: what a function sets before it waits and resets afterwards, it resets in `finally`.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'vite';
import { expect, test } from 'vitest';

interface Node {
  type: string;
  [field: string]: unknown;
}
interface Change {
  what: string;
  value: unknown;
  at: number;
  isInFinally: boolean;
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && typeof (value as Node).type === 'string';

const childrenOf = (node: Node): Node[] => Object.values(node).flat().filter(isNode);

const isFunction = ({ type }: Node) =>
  ['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression'].includes(type);

/** `setBusy(true)` and `isBusy.current = true`. */
function changeIn(node: Node, source: string): Pick<Change, 'what' | 'value'> | null {
  const text = source.slice(node.start as number, node.end as number);
  const [, setter, argument] =
    (node.type === 'CallExpression' && /^(set[A-Z]\w*)\((true|false)\)$/.exec(text)) || [];
  const [, reference, assigned] =
    (node.type === 'AssignmentExpression' && /^(\w+\.current) = (true|false)$/.exec(text)) || [];
  const what = setter ?? reference;
  return what ? { what, value: argument ?? assigned } : null;
}

/** What async functions set before they wait and reset afterwards, but not if an exception comes. */
function leftLocked(source: string): string[] {
  const found: string[] = [];
  function visitFunction(outer: Node) {
    const changes: Change[] = [];
    let waitsAt = Number.POSITIVE_INFINITY;
    function visit(node: Node, isInFinally: boolean) {
      if (isFunction(node)) return visitFunction(node);
      if (node.type === 'AwaitExpression') waitsAt = Math.min(waitsAt, node.start as number);
      const change = changeIn(node, source);
      if (change) changes.push({ ...change, at: node.start as number, isInFinally });
      for (const child of childrenOf(node)) visit(child, isInFinally || child === node.finalizer);
    }
    for (const child of childrenOf(outer)) visit(child, false);
    for (const { what, value, at } of changes) {
      if (value !== 'true' || at > waitsAt) continue;
      const resets = changes.filter(
        (other) => other.what === what && other.value === 'false' && other.at > waitsAt,
      );
      if (resets.length > 0 && !resets.some(({ isInFinally }) => isInFinally)) found.push(what);
    }
  }
  visitFunction(parseSync('file.tsx', source).program as unknown as Node);
  return found;
}

test.each([
  ['async function send() { setBusy(true); await post(); setBusy(false); }', ['setBusy']],
  [
    'const send = async () => { busy.current = true; await post(); busy.current = false; };',
    ['busy.current'],
  ],
  [
    'async function send() { setBusy(true); try { await post(); setBusy(false); } catch { setBusy(false); } }',
    ['setBusy'],
  ],
  ['async function send() { setBusy(true); try { await post(); } finally { setBusy(false); } }', []],
  ['async function send() { setDone(false); await post(); setDone(true); }', []],
  ['function open() { setOpen(true); setOpen(false); }', []],
])('%s', (source, locked) => expect(leftLocked(source)).toEqual(locked));

const sources = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' })
  .filter((file) => /(?<!\.test)\.tsx?$/.test(file))
  .map((file) => ({ file, source: readFileSync(join(import.meta.dirname, file), 'utf8') }));

test('every form is unlocked after an exception', () =>
  expect(sources.flatMap(({ file, source }) => leftLocked(source).map((what) => `${file}: ${what}`))).toEqual(
    [],
  ));

test('forms are locked only while an action, a mutation or a request of the router runs', () => {
  // Each of these ends by itself: `useAction`, `useMutation`, `useNavigation`, `useFetcher`, `useRevalidator`, or a state of a machine.
  const flags =
    /\[is(?:Busy|Submitting|Sending|Saving|Placing|Paying|Signing\w*|Loading|Pending), set\w+\] = useState/;
  expect(sources.filter(({ source }) => flags.test(source)).map(({ file }) => file)).toEqual([
    // The state that a dialog's content reports by `useKeepOpen`.
    'ui/dialog/dialog-or-drawer.tsx',
  ]);
});
