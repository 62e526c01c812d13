// Saving a product: picture first, then the row on condition that it still is what the member saw, then the old picture
// goes.
import { useEffect, useRef } from 'react';
import {
  changedFields,
  type ProductField,
  type ProductForm,
  productFormOf,
  productProblemOf,
  productValues,
} from '../../../domain/product-form.ts';
import { ShownError } from '../../lib/shown-error.ts';
import type { Staff } from '../../lib/staff.ts';
import { dataOf, TableProblem } from '../table-answer.ts';
import { useMember } from '../use-member.tsx';
import { useSave } from '../use-save.ts';
import { removeUnusedPicture, uploadPicture } from './product-picture-storage.ts';
import { type EditedProduct, editedColumns, readProduct } from './product-queries.ts';

/** Someone else has changed fields that the form holds. */
export class EditedMeanwhile extends ShownError {
  override readonly name = 'EditedMeanwhile';
  readonly current: EditedProduct;
  /** In which fields, the picture among them, it is no longer what the member saw. */
  readonly fields: (ProductField | 'image')[];

  constructor(current: EditedProduct, fields: EditedMeanwhile['fields']) {
    super('Someone else changed this product in the meantime. Nothing of yours was saved yet.');
    this.current = current;
    this.fields = fields;
  }
}

/** Someone else has deleted the product. */
export class DeletedMeanwhile extends ShownError {
  override readonly name = 'DeletedMeanwhile';
  constructor() {
    super('Someone else deleted this product in the meantime. There is nothing left to update.');
  }
}

export interface ProductDraft {
  form: ProductForm;
  /** A picture picked in this dialog. */
  file: File | null;
  /** The product as the member saw it, or null for a new one. */
  seen: EditedProduct | null;
}

interface ProductSave {
  isNew: boolean;
  onProgress(part: number | null): void;
  onSaved(): void;
}

export function useProductSave({ isNew, onProgress, onSaved }: ProductSave) {
  const { staff } = useMember();
  // A picture that has gone out stays usable when the row is refused: the next try need not send it again.
  const sent = useRef<{ file: File; address: string } | null>(null);
  const upload = useRef<AbortController | null>(null);
  const isWriting = useRef(false);
  const isLeft = useRef(false);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when the form goes
  useEffect(() => {
    isLeft.current = false;
    return () => {
      isLeft.current = true;
      // Else the row that is being written names it, or will be refused.
      if (!isWriting.current) void dropSent();
    };
  }, []);

  async function addressOf(file: File): Promise<string> {
    if (sent.current?.file === file) return sent.current.address;
    void dropSent();
    onProgress(0);
    upload.current = new AbortController();
    try {
      const address = await uploadPicture(staff, file, onProgress, upload.current.signal);
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
    await removeUnusedPicture(staff, address);
  }

  const save = useSave<ProductDraft, void>({
    async write({ form, file, seen }) {
      isWriting.current = true;
      try {
        const address = file ? await addressOf(file) : null;
        const replaced = seen
          ? await updateProduct(staff.tables, form, address, seen)
          : await createProduct(staff.tables, form, address);
        sent.current = null;
        if (replaced !== address) void removeUnusedPicture(staff, replaced);
      } finally {
        isWriting.current = false;
        if (isLeft.current) void dropSent();
      }
    },
    success: isNew ? 'Product created successfully' : 'Product updated successfully',
    failure: isNew ? 'Failed to create product' : 'Failed to update product',
    refresh: ['products', 'categories', 'dashboard'],
    onSuccess: () => isLeft.current || onSaved(),
    // Beside the field, the image or the form.
    isShownElsewhere: (error) =>
      error instanceof ShownError || (error instanceof TableProblem && productProblemOf(error) !== null),
  });
  return { save, stopUpload: () => upload.current?.abort() };
}

/** @returns the picture it had before: none */
async function createProduct(
  tables: Staff['tables'],
  form: ProductForm,
  picture: string | null,
): Promise<null> {
  dataOf(
    await tables
      .from('products')
      .insert({ ...productValues(form), is_active: true, image_url: picture })
      .select('id'),
  );
  return null;
}

/**
 * Writes the form over the product that was seen.
 * @returns the picture that is no longer shown, or the one that still is when none was picked
 * @throws EditedMeanwhile, DeletedMeanwhile
 */
async function updateProduct(
  tables: Staff['tables'],
  form: ProductForm,
  picture: string | null,
  seen: EditedProduct,
): Promise<string | null> {
  const { stock_quantity, ...values } = productValues(form);
  // Units are sold while a form is open. Who did not touch the stock does not write it either.
  const isStockChanged = stock_quantity !== seen.stock_quantity;
  let base = seen;
  for (;;) {
    let update = tables
      .from('products')
      .update({
        ...values,
        ...(isStockChanged && { stock_quantity }),
        ...(picture !== null && { image_url: picture }),
      })
      .eq('id', seen.id)
      .eq('updated_at', base.updated_at);
    if (isStockChanged) update = update.eq('stock_quantity', seen.stock_quantity);
    const [written] = dataOf(await update.select(editedColumns));
    if (written) return picture === null ? null : base.image_url;

    const current = await readProduct(tables, seen.id);
    if (!current) throw new DeletedMeanwhile();
    // Saved by an earlier attempt whose answer was lost: no confirmation needed.
    const isAsWanted =
      changedFields(form, productFormOf(current)).every((field) => field === 'stock' && !isStockChanged) &&
      (picture === null || picture === current.image_url);
    if (isAsWanted) return picture === null ? null : seen.image_url;
    const fields = whatDiffers(seen, current, { withStock: isStockChanged, withPicture: picture !== null });
    if (fields.length > 0) throw new EditedMeanwhile(current, fields);
    // Something beyond the form has changed, such as whether it is active: that stays as it is now.
    base = current;
  }
}

function whatDiffers(
  seen: EditedProduct,
  current: EditedProduct,
  { withStock, withPicture }: { withStock: boolean; withPicture: boolean },
): EditedMeanwhile['fields'] {
  const fields: EditedMeanwhile['fields'] = changedFields(productFormOf(seen), productFormOf(current)).filter(
    (field) => field !== 'stock' || withStock,
  );
  return withPicture && seen.image_url !== current.image_url ? [...fields, 'image'] : fields;
}
