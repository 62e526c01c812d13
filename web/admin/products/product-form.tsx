// The form of a product (docs/product.md#products-screen): its fields, their errors, and how to continue after another member's
// change.
import { useEffect, useId, useRef, useState } from 'react';
import { type FactColumn, productFacts } from '../../../domain/products/product-facts.ts';
import { Button } from '../../ui/button.tsx';
import { DialogBody, DialogFooter, useKeepOpen } from '../../ui/dialog/dialog-or-drawer.tsx';
import { SelectField, TextArea, TextField } from '../../ui/field.tsx';
import { Notice } from '../../ui/notice.tsx';
import { keysOf } from '../data/keys-of.ts';
import { TableProblem } from '../data/table-answer.ts';
import { Discard } from '../dialogs/discard.tsx';
import { ImplausibleDialog } from '../prices/implausible-dialog.tsx';
import { questionsAboutProduct } from '../prices/plausible-figures.ts';
import { useTypicalPrice } from '../prices/price-queries.ts';
import { reasonProblem, reasonRefusal } from '../ui/typed-problems.ts';
import { ConflictNotice } from './conflict-notice.tsx';
import { ImagePicker } from './images/image-picker.tsx';
import { MoreImages } from './images/more-images.tsx';
import { ImageRejected, UploadStopped } from './images/product-image-storage.ts';
import { ProductHistory } from './product-history.tsx';
import { type EditedProduct, type ListedCategory, useBrands, useCategories } from './product-queries.ts';
import {
  changedFields,
  checkProductForm,
  copiedForm,
  emptyProductForm,
  homeSections,
  knownSpelling,
  lowStockDefault,
  mergedForm,
  type ProductField,
  type ProductForm,
  type ProductProblems,
  productFormOf,
  productProblemOf,
  productValues,
  slugFromName,
} from './product-values.ts';
import { SoldOutSection } from './stock/sold-out.tsx';
import { EditConflict, ProductDeleted, useProductSave } from './use-product-save.ts';

const factExamples: Record<FactColumn, string> = {
  size: '500 ml',
  khat_strength: 'Medium',
  caffeine: 'None added',
  sweetened_with: 'Wild honey',
  keeps: '3 days in the fridge',
  allergens: 'None',
  serving_note: 'Shake well, pour over ice',
};

export interface ProductDialogContent {
  /** Closes the dialog, after a confirmation if there are unsaved changes. */
  onClose(): void;
  /** Called with whether there are unsaved changes. */
  onChanges(has: boolean): void;
  /** Whether the member is being asked to discard unsaved changes. */
  isLeaving: boolean;
  onStay(): void;
  onLeave(): void;
}

interface ProductFormFieldsProps extends ProductDialogContent {
  /** The product at opening, or null for a new one. */
  product: EditedProduct | null;
  /** The product that a new one is a copy of. */
  original?: EditedProduct;
}

export function ProductFormFields({
  product,
  original,
  onClose,
  onChanges,
  isLeaving,
  onStay,
  onLeave,
}: ProductFormFieldsProps) {
  const id = useId();
  const formElement = useRef<HTMLFormElement>(null);
  // The base version: background refreshes do not change it.
  const [seen, setSeen] = useState(product);
  const [start] = useState(() => (original ? copiedForm(original) : emptyProductForm));
  const [form, setForm] = useState<ProductForm>(() => (product ? productFormOf(product) : start));
  const [isActive, setActive] = useState(!original);
  const [file, setFile] = useState<File | null>(null);
  const [moreImages, setMoreImages] = useState<readonly (string | File)[] | null>(null);
  /** Why price or stock change. */
  const [reason, setReason] = useState('');
  const [reasonFault, setReasonFault] = useState<string>();
  const [problems, setProblems] = useState<ProductProblems>({});
  const [imageProblem, setImageProblem] = useState<string>();
  const [isSlugTyped, setSlugTyped] = useState(product !== null);
  const [progress, setProgress] = useState<number | null>(null);
  const [conflict, setConflict] = useState<EditConflict | null>(null);
  const [isDeleted, setDeleted] = useState(false);
  const [preparing, setPreparing] = useState({ image: false, moreImages: false });
  const isSaved = useRef(false);

  const startImages = { image_url: original?.image_url ?? null, more_images: original?.more_images ?? [] };
  const isPreparing = preparing.image || preparing.moreImages;

  const categories = useCategories();
  const brands = useBrands();
  const { save, stopUpload } = useProductSave({
    isNew: product === null,
    onProgress: setProgress,
    onSaved() {
      isSaved.current = true;
      onChanges(false);
      onClose();
    },
  });
  const isBusy = save.isPending;
  useKeepOpen(isBusy);

  const before = seen ? productFormOf(seen) : start;
  const isFigureChanged = seen !== null && (form.price !== before.price || form.stock !== before.stock);
  const isChanged = file !== null || moreImages !== null || changedFields(before, form).length > 0;
  useEffect(() => {
    if (!isSaved.current) onChanges(isChanged && !isDeleted);
  }, [isChanged, isDeleted, onChanges]);
  useEffect(() => () => onChanges(false), [onChanges]);

  // After the error is rendered and the field is enabled, so that screen readers read it with the field.
  const [focusDue, focusOn] = useState<ProductField | null>(null);
  useEffect(() => {
    if (focusDue === null || isBusy) return;
    focusOn(null);
    formElement.current?.querySelector<HTMLElement>(`[name="${focusDue}"]`)?.focus();
  }, [focusDue, isBusy]);
  function change(field: ProductField, value: string) {
    setForm((now) => ({
      ...now,
      [field]: value,
      ...(field === 'name' && !isSlugTyped && { slug: slugFromName(value) }),
    }));
    if (field === 'slug') setSlugTyped(product !== null || value !== '');
    setProblems((now) => {
      const rest = { ...now };
      delete rest[field];
      if (field === 'name' && !isSlugTyped) delete rest.slug;
      return rest;
    });
  }
  const typicalPrice = useTypicalPrice();
  const [asked, setAsked] = useState<{
    questions: string[];
    form: ProductForm;
    base: EditedProduct | null;
  } | null>(null);
  /** @param isSure whether implausible figures were confirmed */
  function submit(form: ProductForm, base: EditedProduct | null, isSure = false) {
    const found = checkProductForm(form);
    setProblems(found);
    const first = keysOf(emptyProductForm).find((field) => found[field]);
    if (first) return focusOn(first);
    const why = isFigureChanged ? reason.trim() : '';
    const fault = why ? reasonProblem(why) : undefined;
    setReasonFault(fault);
    if (fault) return formElement.current?.querySelector<HTMLElement>('[name=reason]')?.focus();
    const { price, stock_quantity } = productValues(form);
    const questions = questionsAboutProduct(
      base && { price: base.price, stock: base.stock_quantity },
      { price, stock: stock_quantity },
      typicalPrice,
    );
    if (questions.length > 0 && !isSure) return setAsked({ questions, form, base });
    setConflict(null);
    setImageProblem(undefined);
    save.mutate(
      { form, file, moreImages, seen: base, reason: why, start: { images: startImages, isActive } },
      {
        onError(error) {
          if (error instanceof EditConflict) setConflict(error);
          else if (error instanceof ProductDeleted) setDeleted(true);
          else if (error instanceof ImageRejected || error instanceof UploadStopped) {
            setImageProblem(error.message);
          } else if (error instanceof TableProblem) {
            setReasonFault(reasonRefusal(error));
            const problem = productProblemOf(error);
            if (!problem) return;
            setProblems({ [problem.field]: problem.text });
            focusOn(problem.field);
          }
        },
      },
    );
  }
  const field = (name: ProductField) => ({
    name,
    value: form[name],
    problem: problems[name],
    disabled: isBusy,
    onChange: ({ target }: { target: { value: string } }) => change(name, target.value),
  });

  return (
    <>
      <DialogBody>
        <form
          ref={formElement}
          id={id}
          // The form shows its own errors beside the fields.
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (isBusy || isDeleted || isPreparing) return;
            const tidied = { ...form, brand: knownSpelling(form.brand, brands) };
            setForm(tidied);
            submit(tidied, seen);
          }}
          className="grid gap-5 pt-3"
        >
          {isDeleted ? (
            <Notice tone="danger" title="This product is gone">
              Someone else deleted it in the meantime. There is nothing left to update.
            </Notice>
          ) : null}
          {conflict && seen ? (
            <ConflictNotice
              seen={seen}
              conflict={conflict}
              mine={form}
              isBusy={isBusy}
              onTakeTheirs={() => {
                setSeen(conflict.current);
                setForm(productFormOf(conflict.current));
                setFile(null);
                setMoreImages(null);
                setProblems({});
                setConflict(null);
              }}
              onWriteMine={() => {
                const merged = mergedForm(before, form, productFormOf(conflict.current));
                setSeen(conflict.current);
                setForm(merged);
                submit(merged, conflict.current);
              }}
            />
          ) : null}
          <ImagePicker
            saved={(seen ?? startImages).image_url}
            picked={file}
            problem={imageProblem}
            progress={progress}
            isDisabled={isBusy}
            onPreparing={(image) => setPreparing((now) => ({ ...now, image }))}
            onPick={(picked) => {
              setFile(picked);
              setImageProblem(undefined);
            }}
            onProblem={(problem) => {
              setFile(null);
              setImageProblem(problem);
            }}
          />
          <MoreImages
            images={moreImages ?? (seen ?? startImages).more_images}
            isDisabled={isBusy}
            onPreparing={(moreImages) => setPreparing((now) => ({ ...now, moreImages }))}
            onChange={setMoreImages}
          />
          <div className="grid gap-5 sm:grid-cols-2">
            <TextField label="Product Name" required autoComplete="off" {...field('name')} />
            <TextField
              label="Product Slug"
              required
              autoComplete="off"
              autoCapitalize="none"
              spellCheck={false}
              hint={`Its address: /shop/${form.slug.trim() || '…'}`}
              {...field('slug')}
            />
          </div>
          <TextField label="Product Tagline" autoComplete="off" {...field('tagline')} />
          <div className="grid gap-5 sm:grid-cols-2">
            <TextField
              label="Price (KES)"
              required
              type="number"
              inputMode="decimal"
              min="0"
              step="0.01"
              {...field('price')}
            />
            <TextField
              label="Before Offer (KES)"
              type="number"
              inputMode="decimal"
              min="0"
              step="0.01"
              hint="The old price, shown crossed out."
              {...field('previousPrice')}
            />
            <TextField
              label="Stock Quantity"
              type="number"
              inputMode="numeric"
              min="0"
              step="1"
              {...field('stock')}
            />
            <TextField
              label="Low Stock Below"
              type="number"
              inputMode="numeric"
              min="0"
              step="1"
              placeholder={String(lowStockDefault)}
              hint={`Units. Empty: ${lowStockDefault}. 0: never low.`}
              {...field('lowStockBelow')}
            />
          </div>
          {isFigureChanged ? (
            <TextField
              label="Why"
              name="reason"
              autoComplete="off"
              maxLength={200}
              hint="Optional. In the history of the price and the stock."
              value={reason}
              problem={reasonFault}
              disabled={isBusy}
              onChange={({ target }) => {
                setReason(target.value);
                setReasonFault(undefined);
              }}
            />
          ) : null}
          <div className="grid gap-5 sm:grid-cols-2">
            <SelectField label="Category" required {...field('category')}>
              <option value="">Select a category</option>
              {choicesOf(categories.data ?? [], form.category).map(({ name, is_active }) => (
                <option key={name} value={name}>
                  {is_active ? name : `${name} (inactive)`}
                </option>
              ))}
            </SelectField>
            <TextField
              label="Brand"
              autoComplete="off"
              list={`${id}-brands`}
              hint="Choose one, or type a new one."
              {...field('brand')}
            />
            <datalist id={`${id}-brands`}>
              {brands.map((brand) => (
                <option key={brand} value={brand} />
              ))}
            </datalist>
            <SelectField label="Home Page" {...field('homeSection')}>
              <option value="">Not in a section</option>
              {homeSections.map(({ value, label }) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </SelectField>
            {form.homeSection ? (
              <TextField
                label="Place in Section"
                type="number"
                inputMode="numeric"
                min="1"
                step="1"
                hint="1 is first. Empty: last."
                {...field('homePosition')}
              />
            ) : null}
          </div>
          {seen ? <SoldOutSection product={seen} /> : null}
          <fieldset className="grid gap-5 border-t border-line pt-4 sm:grid-cols-2">
            <legend className="float-left mb-1 w-full font-semibold sm:col-span-full">
              Facts <span className="font-normal text-ink-soft">shown on its page, all optional</span>
            </legend>
            {productFacts.map(({ column, label, maxLength }) => (
              <TextField
                key={column}
                label={label}
                autoComplete="off"
                maxLength={maxLength}
                placeholder={factExamples[column]}
                {...field(column)}
              />
            ))}
          </fieldset>
          <TextArea label="Description" rows={4} {...field('description')} />
          {original ? (
            <label className="flex min-h-11 items-center gap-3 text-sm">
              <input
                type="checkbox"
                checked={isActive}
                disabled={isBusy}
                onChange={({ target }) => setActive(target.checked)}
                className="size-5 accent-leaf-700"
              />
              <span>
                <span className="block font-semibold">In the shop at once</span>
                <span className="text-ink-soft">Otherwise the copy is inactive until you activate it.</span>
              </span>
            </label>
          ) : null}
          {seen ? <ProductHistory productId={seen.id} /> : null}
        </form>
      </DialogBody>
      <ImplausibleDialog
        questions={asked?.questions ?? null}
        onCancel={() => setAsked(null)}
        onConfirm={() => {
          setAsked(null);
          if (asked) submit(asked.form, asked.base, true);
        }}
      />
      <DialogFooter>
        {isLeaving ? (
          <Discard onStay={onStay} onLeave={onLeave} />
        ) : (
          <div className="flex flex-wrap justify-end gap-3 max-md:*:grow">
            {progress === null ? (
              <Button tone="quiet" onClick={onClose} disabled={isBusy}>
                Cancel
              </Button>
            ) : (
              // A large image on a slow connection takes minutes: the upload can be cancelled.
              <Button tone="quiet" onClick={stopUpload}>
                Stop upload
              </Button>
            )}
            <Button type="submit" form={id} isBusy={isBusy || isPreparing} disabled={isDeleted}>
              {isBusy ? 'Saving...' : product ? 'Update Product' : 'Create Product'}
            </Button>
          </div>
        )}
      </DialogFooter>
    </>
  );
}

/** The active categories and the product's own, which may have been deactivated. */
function choicesOf(
  categories: readonly ListedCategory[],
  own: string,
): Pick<ListedCategory, 'name' | 'is_active'>[] {
  const offered = categories.filter(({ name, is_active }) => is_active || name === own);
  return own && !offered.some(({ name }) => name === own)
    ? [...offered, { name: own, is_active: true }]
    : offered;
}
