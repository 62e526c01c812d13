// The categories: added, renamed and deactivated. None is deleted, because products refer to them.
import { useId, useRef, useState } from 'react';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogHeading, DialogOrDrawer } from '../../ui/dialog/dialog-or-drawer.tsx';
import { TextField } from '../../ui/field.tsx';
import { changedRow, dataOf } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { Discard } from '../dialogs/discard.tsx';
import { FormButtons } from '../dialogs/form-footer.tsx';
import { useUnsaved } from '../dialogs/use-unsaved.tsx';
import { useMember } from '../layout/roles/use-member.tsx';
import { DialogListLoadState } from '../ui/load-states.tsx';
import { type ListedCategory, useCategories } from './product-queries.ts';
import { categoryProblemOf, checkCategoryName, tidyName } from './product-values.ts';

const refresh = ['categories', 'products', 'dashboard'];

const products = (count: number) =>
  `${count > 100 ? 'More than 100' : count} ${count === 1 ? 'product' : 'products'}`;

interface CategoriesDialogProps {
  open: boolean;
  onClose(): void;
}

export function CategoriesDialog({ open, onClose }: CategoriesDialogProps) {
  return (
    <DialogOrDrawer open={open} onClose={onClose}>
      <DialogHeading
        title="Categories"
        description="Products follow a rename. An inactive category is no longer offered; its products stay in the shop."
      />
      <DialogBody>
        <Categories />
      </DialogBody>
    </DialogOrDrawer>
  );
}

function Categories() {
  const { data: categories, error, refetch } = useCategories();
  const [renamed, setRenamed] = useState<string | null>(null);
  // Where focus moves after a rename.
  const [last, setLast] = useState<string | null>(null);
  if (!categories) {
    return <DialogListLoadState noun="categories" error={error !== null} onRetry={() => void refetch()} />;
  }
  return (
    <div className="grid gap-6 pt-2">
      <AddCategory categories={categories} />
      <ul aria-label="Categories" className="rounded-lg border border-line bg-card">
        {categories.map((category) => (
          <li key={category.id} className="border-line px-4 py-3 not-first:border-t">
            {renamed === category.id ? (
              <RenameCategory
                category={category}
                others={categories.filter(({ id }) => id !== category.id)}
                onDone={() => {
                  setRenamed(null);
                  setLast(category.id);
                }}
              />
            ) : (
              <Category
                category={category}
                isLast={last === category.id}
                onRename={() => setRenamed(category.id)}
              />
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Validation of a name: here first, then by the database. */
function useNameProblem() {
  const [problem, setProblem] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const showProblem = (text: string | null) => {
    setProblem(text ?? undefined);
    if (text) input.current?.focus();
    return text !== null;
  };
  return { problem, input, showProblem };
}

function AddCategory({ categories }: { categories: ListedCategory[] }) {
  const { tables } = useMember().staff;
  const [name, setName] = useState('');
  const unsaved = useUnsaved(name.trim() !== '');
  const { problem, input, showProblem } = useNameProblem();
  const add = useSave<string>({
    write: async (newName) => dataOf(await tables.from('categories').insert({ name: newName }).select('id')),
    success: 'Category created successfully',
    failure: 'Failed to create category',
    refresh,
    onSuccess() {
      setName('');
      input.current?.focus();
    },
    isShownElsewhere: (error) => categoryProblemOf(error) !== null,
  });
  return (
    <form
      noValidate
      className="flex flex-wrap items-start gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (
          add.isPending ||
          showProblem(
            checkCategoryName(
              name,
              categories.map((category) => category.name),
            ),
          )
        )
          return;
        add.mutate(tidyName(name), { onError: (error) => showProblem(categoryProblemOf(error)) });
      }}
    >
      <div className="min-w-48 flex-1">
        <TextField
          ref={input}
          label="New Category"
          autoComplete="off"
          value={name}
          problem={problem}
          onChange={({ target }) => {
            setName(target.value);
            showProblem(null);
          }}
        />
      </div>
      {unsaved.isBlocked ? (
        <Discard onStay={unsaved.stay} onLeave={unsaved.leave} />
      ) : (
        <Button type="submit" isBusy={add.isPending} className="min-h-12 min-[26rem]:mt-6.5">
          {add.isPending ? 'Adding...' : 'Add Category'}
        </Button>
      )}
    </form>
  );
}

interface CategoryProps {
  category: ListedCategory;
  /** Whether it has just been renamed. */
  isLast: boolean;
  onRename(): void;
}

function Category({ category, isLast, onRename }: CategoryProps) {
  const { tables } = useMember().staff;
  const { id, name, is_active, productCount } = category;
  const toggle = useSave({
    write: async () =>
      changedRow(
        await tables
          .from('categories')
          .update({ is_active: !is_active })
          .eq('id', id)
          .eq('is_active', is_active)
          .select('id'),
      ),
    success: 'Category status updated',
    failure: 'Failed to update category status',
    refresh,
  });
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
      <div className="min-w-40 flex-1">
        <p className="font-semibold break-words">
          <span className="mr-2">{name}</span>
          {is_active ? null : <Badge tone="grey">Inactive</Badge>}
        </p>
        <p className="text-sm text-ink-soft">{products(productCount)}</p>
      </div>
      <div className="flex gap-2">
        <Button tone="quiet" autoFocus={isLast} onClick={onRename}>
          Rename<span className="sr-only"> {name}</span>
        </Button>
        <Button tone="quiet" isBusy={toggle.isPending} onClick={() => toggle.mutate()} className="min-w-30">
          {is_active ? 'Deactivate' : 'Activate'}
          <span className="sr-only"> {name}</span>
        </Button>
      </div>
    </div>
  );
}

interface RenameCategoryProps {
  category: ListedCategory;
  others: ListedCategory[];
  onDone(): void;
}

function RenameCategory({ category, others, onDone }: RenameCategoryProps) {
  const { tables } = useMember().staff;
  const id = useId();
  // The name as the member saw it, even if a refresh brings another one.
  const [seen] = useState(category.name);
  const [name, setName] = useState(seen);
  const isTyped = tidyName(name) !== seen;
  const unsaved = useUnsaved(isTyped);
  const { problem, input, showProblem } = useNameProblem();
  const follow = category.productCount > 0 ? products(category.productCount) : null;
  const rename = useSave<string>({
    write: async (newName) =>
      changedRow(
        await tables
          .from('categories')
          .update({ name: newName })
          .eq('id', category.id)
          .eq('name', seen)
          .select('id'),
        'Someone else renamed this category in the meantime. You see its name as it is now.',
      ),
    success: follow ? `Category renamed successfully. ${follow} followed.` : 'Category renamed successfully',
    failure: 'Failed to rename category',
    refresh,
    onSuccess: onDone,
    isShownElsewhere: (error) => categoryProblemOf(error) !== null,
  });
  return (
    <form
      noValidate
      aria-label={`Rename ${seen}`}
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        const newName = tidyName(name);
        if (newName === seen) return onDone();
        if (
          rename.isPending ||
          showProblem(
            checkCategoryName(
              name,
              others.map((other) => other.name),
            ),
          )
        )
          return;
        rename.mutate(newName, {
          onError(error) {
            // The renamed category no longer has the old name; the list shows the new one.
            if (!showProblem(categoryProblemOf(error)) && error.name === 'ConflictError') onDone();
          },
        });
      }}
    >
      <TextField
        ref={input}
        id={id}
        label={`New name of ${seen}`}
        autoComplete="off"
        // The member has just opened this field.
        autoFocus
        value={name}
        problem={problem}
        hint={follow ? `${follow} will follow.` : undefined}
        onChange={({ target }) => {
          setName(target.value);
          showProblem(null);
        }}
        // Ends the renaming; does not close the dialog. The dialog asks about a typed name.
        data-own-escape={isTyped ? undefined : true}
        onKeyDown={(event) => {
          if (isTyped || event.key !== 'Escape') return;
          event.preventDefault();
          onDone();
        }}
      />
      <FormButtons
        unsaved={unsaved}
        label={rename.isPending ? 'Saving...' : 'Save Name'}
        isBusy={rename.isPending}
        isCancelDisabled={rename.isPending}
        onCancel={onDone}
      />
    </form>
  );
}
