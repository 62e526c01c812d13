// Saves a product: uploads the image, writes the row if it has not changed since the member saw it, then removes the
// old image.
import { useEffect, useRef } from 'react';
import { ShownError } from '../../lib/shown-error.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf, SavedWithoutAnswer, TableProblem } from '../data/table-answer.ts';
import { useSave } from '../data/use-save.ts';
import { useMember } from '../layout/use-member.tsx';
import { type PriceChange, usePriceUndo } from '../prices/use-price-undo.ts';
import { removeUnusedImage, uploadImage } from './product-image-storage.ts';
import { type EditedProduct, editedColumns, readProduct } from './product-queries.ts';
import {
  changedFields,
  type ProductField,
  type ProductForm,
  productFormOf,
  productProblemOf,
  productValues,
} from './product-values.ts';

/** Another member has changed fields of the form. */
export class EditConflict extends ShownError {
  override readonly name = 'EditConflict';
  readonly current: EditedProduct;
  /** The changed fields, including the image. */
  readonly fields: (ProductField | 'image')[];

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
  /** The product as the member saw it, or null for a new one. */
  seen: EditedProduct | null;
  /** What a new product starts with: a copy keeps the image of its original, and waits until it is activated. */
  start: { image: string | null; isActive: boolean };
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
  // An uploaded image is reused if the row was refused: the next attempt does not upload it again.
  const sent = useRef<{ file: File; address: string } | null>(null);
  const upload = useRef<AbortController | null>(null);
  const isWriting = useRef(false);
  const isLeft = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, on unmount
  useEffect(() => {
    isLeft.current = false;
    return () => {
      isLeft.current = true;
      // Otherwise the row that is being written refers to it, or will be refused.
      if (!isWriting.current) void dropSent();
    };
  }, []);

  async function addressOf(file: File): Promise<string> {
    if (sent.current?.file === file) return sent.current.address;
    void dropSent();
    onProgress(0);
    upload.current = new AbortController();
    try {
      const address = await uploadImage(staff, file, onProgress, upload.current.signal);
      sent.current = { file, address };
      return address;
    } finally {
      onProgress(null);
    }
  }
  /** Deletes the uploads of a product that is not saved. */
  async function dropSent(): Promise<void> {
    const address = sent.current?.address ?? null;
    sent.current = null;
    await removeUnusedImage(staff, address);
  }

  const save = useSave<ProductDraft, void>({
    async write({ form, file, seen, start }) {
      isWriting.current = true;
      try {
        const address = file ? await addressOf(file) : null;
        const replaced = seen
          ? await updateProduct(staff.tables, form, address, seen)
          : await createProduct(staff.tables, form, { ...start, ...(file && { image: address }) });
        sent.current = null;
        if (replaced !== address) void removeUnusedImage(staff, replaced);
      } catch (error) {
        // The saved product uses the image.
        if (error instanceof SavedWithoutAnswer) sent.current = null;
        throw error;
      } finally {
        isWriting.current = false;
        if (isLeft.current) void dropSent();
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

/** @returns the previous image: none */
async function createProduct(
  tables: Staff['tables'],
  form: ProductForm,
  { image, isActive }: ProductDraft['start'],
): Promise<null> {
  dataOf(
    await tables
      .from('products')
      .insert({ ...productValues(form), is_active: isActive, image_url: image })
      .select('id'),
  );
  return null;
}

/**
 * Writes the form to the product that the member saw.
 * @returns the image that is no longer used, or the current one if none was picked
 * @throws EditConflict, ProductDeleted
 */
async function updateProduct(
  tables: Staff['tables'],
  form: ProductForm,
  image: string | null,
  seen: EditedProduct,
): Promise<string | null> {
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
        ...(image !== null && { image_url: image }),
      })
      .eq('id', seen.id)
      .eq('updated_at', base.updated_at);
    if (isStockChanged) update = update.eq('stock_quantity', seen.stock_quantity);
    const [written] = dataOf(await update.select(editedColumns));
    if (written) return image === null ? null : base.image_url;

    const current = await readProduct(tables, seen.id);
    if (!current) throw new ProductDeleted();
    // Saved by an earlier attempt whose response was lost: no confirmation needed.
    const isAlreadySaved =
      changedFields(form, productFormOf(current)).every((field) => field === 'stock' && !isStockChanged) &&
      (image === null || image === current.image_url);
    if (isAlreadySaved) return image === null ? null : seen.image_url;
    const fields = changedFieldsBetween(seen, current, {
      withStock: isStockChanged,
      withImage: image !== null,
    });
    if (fields.length > 0) throw new EditConflict(current, fields);
    // A column outside the form has changed, such as `is_active`: it stays as is.
    base = current;
  }
}

function changedFieldsBetween(
  seen: EditedProduct,
  current: EditedProduct,
  { withStock, withImage }: { withStock: boolean; withImage: boolean },
): EditConflict['fields'] {
  const fields: EditConflict['fields'] = changedFields(productFormOf(seen), productFormOf(current)).filter(
    (field) => field !== 'stock' || withStock,
  );
  return withImage && seen.image_url !== current.image_url ? [...fields, 'image'] : fields;
}
