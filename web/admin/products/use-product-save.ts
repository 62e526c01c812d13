// Saves a product: uploads its images, writes the row if it has not changed since the member saw it, then removes the
// images that it no longer has.
import { useEffect, useRef } from 'react';
import { ShownError } from '../../lib/shown-error.ts';
import type { Staff } from '../../lib/staff.ts';
import { keysOf } from '../data/keys-of.ts';
import { dataOf, SavedWithoutAnswer, TableProblem } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/roles/use-member.tsx';
import { type PriceChange, usePriceUndo } from '../prices/use-price-undo.ts';
import { removeUnusedImages, uploadImage } from './images/product-image-storage.ts';
import {
  type EditedProduct,
  editedColumns,
  imagesOf,
  type ProductImages,
  readProduct,
} from './product-queries.ts';
import {
  changedFields,
  type ProductField,
  type ProductForm,
  productFormOf,
  productProblemOf,
  productValues,
} from './product-values.ts';

/** What the form holds beside its fields. */
export type ImageField = 'image' | 'moreImages';

/** Another member has changed fields of the form. */
export class EditConflict extends ShownError {
  override readonly name = 'EditConflict';
  readonly current: EditedProduct;
  readonly fields: (ProductField | ImageField)[];

  constructor(current: EditedProduct, fields: EditConflict['fields']) {
    super('Someone else changed this product in the meantime. Nothing of yours was saved yet.');
    this.current = current;
    this.fields = fields;
  }
}

/** Another member has deleted the product. */
export class ProductDeleted extends ShownError {
  override readonly name = 'ProductDeleted';
  constructor() {
    super('Someone else deleted this product in the meantime. There is nothing left to update.');
  }
}

export interface ProductDraft {
  form: ProductForm;
  /** An image picked in this dialog. */
  file: File | null;
  /** All further images, saved and picked, if the member has changed them. */
  moreImages: readonly (string | File)[] | null;
  /** The product as the member saw it, or null for a new one. */
  seen: EditedProduct | null;
  /** Why price or stock change, in the member's words; '' for none. */
  reason: string;
  /** What a new product starts with: a copy keeps the images of its original, and waits until it is activated. */
  start: { images: ProductImages; isActive: boolean };
}

const updated = 'Product updated successfully';

function priceChangeOf({ form, seen }: ProductDraft): PriceChange | null {
  const { name, price } = productValues(form);
  return seen && seen.price !== price ? { productId: seen.id, name, from: seen.price, to: price } : null;
}

interface ProductSave {
  isNew: boolean;
  onProgress(part: number | null): void;
  onSaved(): void;
}

export function useProductSave({ isNew, onProgress, onSaved }: ProductSave) {
  const { staff } = useMember();
  const offerPriceUndo = usePriceUndo();
  // Uploaded images are reused if the row was refused: the next attempt does not upload them again.
  const sent = useRef(new Map<File, string>());
  const upload = useRef<AbortController | null>(null);
  const isWriting = useRef(false);
  const isLeft = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, on unmount
  useEffect(() => {
    isLeft.current = false;
    return () => {
      isLeft.current = true;
      // Otherwise the row that is being written refers to them, or will be refused.
      if (!isWriting.current) dropSent();
    };
  }, []);

  /** Uploads the picked images that are not in storage yet, and removes those that are no longer picked. */
  async function sendAll(files: readonly File[]): Promise<void> {
    dropSent(files);
    const waiting = files.filter((file) => !sent.current.has(file));
    if (waiting.length === 0) return;
    upload.current = new AbortController();
    try {
      for (const [index, file] of waiting.entries()) {
        const note = (part: number) => onProgress((index + part) / waiting.length);
        note(0);
        sent.current.set(file, await uploadImage(staff, file, note, upload.current.signal));
      }
    } finally {
      onProgress(null);
    }
  }
  /** Deletes the uploads of a product that is not saved. */
  function dropSent(except: readonly File[] = []): void {
    for (const [file, address] of sent.current) {
      if (except.includes(file)) continue;
      sent.current.delete(file);
      void removeUnusedImages(staff, [address]);
    }
  }
  /** @returns the images that the member has changed */
  async function send({ file, moreImages, seen }: ProductDraft): Promise<Partial<ProductImages>> {
    // What another member has removed in the meantime is no longer in storage.
    const kept = moreImages?.filter(
      (image) => image instanceof File || !seen || seen.more_images.includes(image),
    );
    const picked = [file, ...(kept ?? [])].filter((image) => image instanceof File);
    await sendAll(picked);
    const addressOf = (image: File) => sent.current.get(image) ?? '';
    return {
      ...(file && { image_url: addressOf(file) }),
      ...(kept && { more_images: kept.map((image) => (image instanceof File ? addressOf(image) : image)) }),
    };
  }

  const save = useSave<ProductDraft, void>({
    async write(draft) {
      const { form, seen, start } = draft;
      isWriting.current = true;
      try {
        const images = await send(draft);
        if (seen) void removeUnusedImages(staff, await updateProduct(staff.tables, draft, images, seen));
        else await createProduct(staff.tables, form, { ...start.images, ...images }, start.isActive);
        sent.current.clear();
      } catch (error) {
        // The saved product uses the images.
        if (error instanceof SavedWithoutAnswer) sent.current.clear();
        throw error;
      } finally {
        isWriting.current = false;
        if (isLeft.current) dropSent();
      }
    },
    // The offer to undo a change of the price has this text.
    success: (_, draft) => (isNew ? 'Product created successfully' : priceChangeOf(draft) ? '' : updated),
    failure: isNew ? 'Failed to create product' : 'Failed to update product',
    refresh: ['products', 'categories', 'dashboard'],
    onSuccess(_, draft) {
      const change = priceChangeOf(draft);
      if (change) offerPriceUndo(change, updated);
      if (!isLeft.current) onSaved();
    },
    // Shown beside the field, the image or the form.
    isShownElsewhere: (error) =>
      error instanceof ShownError || (error instanceof TableProblem && productProblemOf(error) !== null),
  });
  return { save, stopUpload: () => upload.current?.abort() };
}

async function createProduct(
  tables: Staff['tables'],
  form: ProductForm,
  images: ProductImages,
  isActive: boolean,
): Promise<void> {
  dataOf(
    await tables
      .from('products')
      .insert({ ...productValues(form), ...images, is_active: isActive })
      .select('id'),
  );
}

/**
 * Writes the form to the product that the member saw.
 * @param images those that the member has changed
 * @returns the images that it no longer has
 * @throws EditConflict, ProductDeleted
 */
async function updateProduct(
  tables: Staff['tables'],
  { form, reason }: ProductDraft,
  images: Partial<ProductImages>,
  seen: EditedProduct,
): Promise<string[]> {
  const { stock_quantity, ...values } = productValues(form);
  // Units are sold while a form is open: the stock is written only if the member changed it.
  const isStockChanged = stock_quantity !== seen.stock_quantity;
  let base = seen;
  for (;;) {
    let update = tables
      .from('products')
      .update({
        ...values,
        ...(isStockChanged && { stock_quantity }),
        ...(reason && { reason_of_change: reason }),
        ...images,
      })
      .eq('id', seen.id)
      .eq('updated_at', base.updated_at);
    if (isStockChanged) update = update.eq('stock_quantity', seen.stock_quantity);
    const [written] = dataOf(await update.select(editedColumns));
    if (written) return imagesLost(base, written);

    const current = await readProduct(tables, seen.id);
    if (!current) throw new ProductDeleted();
    // Saved by an earlier attempt whose response was lost: no confirmation needed.
    const isAlreadySaved =
      changedFields(form, productFormOf(current)).every((field) => field === 'stock' && !isStockChanged) &&
      changedImages({ ...current, ...images }, current).length === 0;
    if (isAlreadySaved) return imagesLost(seen, current);
    const fields = [
      ...changedFields(productFormOf(seen), productFormOf(current)).filter(
        (field) => field !== 'stock' || isStockChanged,
      ),
      ...changedImages(seen, current).filter((field) => imageColumns[field] in images),
    ];
    if (fields.length > 0) throw new EditConflict(current, fields);
    // A column outside the form has changed, such as `is_active`: it stays as is.
    base = current;
  }
}

const imageColumns = { image: 'image_url', moreImages: 'more_images' } as const satisfies Record<
  ImageField,
  keyof ProductImages
>;

const changedImages = (before: ProductImages, after: ProductImages): ImageField[] =>
  keysOf(imageColumns).filter(
    (field) => JSON.stringify(before[imageColumns[field]]) !== JSON.stringify(after[imageColumns[field]]),
  );

const imagesLost = (before: ProductImages, after: ProductImages): string[] =>
  imagesOf(before).filter((image) => !imagesOf(after).includes(image));
