// The staff's form of a product: validation with its messages, and the values for the database.
import { slugLength } from '../../../domain/products/catalogue.ts';
import { type FactColumn, productFacts } from '../../../domain/products/product-facts.ts';
import { visibleLength } from '../../../domain/visible-text.ts';
import type { ProductHomeSection } from '../../../supabase/types.ts';
import { keysOf } from '../data/keys-of.ts';

/** A product in the form, as typed. */
export interface ProductForm extends Record<FactColumn, string> {
  name: string;
  slug: string;
  tagline: string;
  /** In shillings, such as `950` or `950.50`. */
  price: string;
  /** In shillings: the price before an offer. Empty: no offer. */
  previousPrice: string;
  stock: string;
  /** Units below which the stock is low. Empty: the default. */
  lowStockBelow: string;
  category: string;
  brand: string;
  /** A `ProductHomeSection`, or empty for none. */
  homeSection: string;
  /** Its place in the section, from 1. Empty: last. */
  homePosition: string;
  description: string;
}
export type ProductField = keyof ProductForm;

/** The columns of a product that its form holds. Prices in cents. */
export interface ProductValues extends Record<FactColumn, string | null> {
  name: string;
  slug: string;
  tagline: string | null;
  price: number;
  previous_price: number | null;
  stock_quantity: number;
  low_stock_below: number | null;
  category: string | null;
  brand: string | null;
  home_section: ProductHomeSection | null;
  home_position: number | null;
  description: string | null;
}

export type ProductProblems = Partial<Record<ProductField, string>>;

/** Limits of the database. */
const productLimits = {
  nameLength: 160,
  categoryLength: 80,
  brandLength: 160,
  /** Cents. */
  price: 1_000_000_000,
  stock: 2_147_483_647,
  lowStockBelow: 1_000_000,
  homePosition: 10_000,
} as const;

/** Units below which the stock is low by default, as in the column `is_low_on_stock`. */
export const lowStockDefault = 10;

const homeSectionLabels: Record<ProductHomeSection, string> = {
  top_picks: 'Top Picks',
  drinks_on_offer: 'Drinks on Offer',
};
/** Sections of the home page that show chosen products. */
export const homeSections = keysOf(homeSectionLabels).map((value) => ({
  value,
  label: homeSectionLabels[value],
}));

export const emptyProductForm: ProductForm = {
  name: '',
  slug: '',
  tagline: '',
  price: '',
  previousPrice: '',
  stock: '0',
  lowStockBelow: '',
  category: '',
  brand: '',
  homeSection: '',
  homePosition: '',
  size: '',
  khat_strength: '',
  caffeine: '',
  sweetened_with: '',
  keeps: '',
  allergens: '',
  serving_note: '',
  description: '',
};

const inWords = new Intl.NumberFormat('en-KE');

/**
 * Returns the problems of a product's form by field (docs/product.md#products-screen).
 * @returns an empty object when it may be saved
 */
export function checkProductForm(form: ProductForm): ProductProblems {
  const problems: ProductProblems = {};
  const name = form.name.trim();
  if (visibleLength(name.slice(0, 1000)) === 0) problems.name = 'Product name is required';
  else if ([...name].length > productLimits.nameLength) {
    problems.name = `Product name is longer than ${productLimits.nameLength} characters`;
  }
  const slug = form.slug.trim();
  if (!slug) problems.slug = 'Product slug is required';
  else if (!/^[a-z0-9]+(-[a-z0-9]+)*$/.test(slug)) {
    problems.slug = 'Product slug takes small letters a-z and digits, with single hyphens between them';
  } else if (slug.length > slugLength) {
    problems.slug = `Product slug is longer than ${slugLength} characters`;
  }
  const price = readShillings(form.price);
  if (!form.price.trim()) problems.price = 'Price is required';
  else if (price === null) problems.price = 'Price must be a number with at most two decimals';
  else if (price < 0) problems.price = 'Price must be positive';
  else if (price > productLimits.price) {
    problems.price = `Price is more than KES ${inWords.format(productLimits.price / 100)}`;
  }
  const previousPrice = readShillings(form.previousPrice);
  if (form.previousPrice.trim()) {
    if (previousPrice === null) {
      problems.previousPrice = 'The price before an offer must be a number with at most two decimals';
    } else if (previousPrice > productLimits.price) {
      problems.previousPrice = `The price before an offer is more than KES ${inWords.format(productLimits.price / 100)}`;
    } else if (price !== null && previousPrice <= price) problems.previousPrice = notAbovePrice;
  }
  const stock = checkStock(form.stock);
  if (stock) problems.stock = stock;
  if (form.lowStockBelow.trim()) {
    const below = readWhole(form.lowStockBelow);
    if (below === null || below < 0 || below > productLimits.lowStockBelow) {
      problems.lowStockBelow = `The threshold must be a whole number from 0 to ${inWords.format(productLimits.lowStockBelow)}`;
    }
  }
  if (!form.category) problems.category = 'Category is required';
  if ([...form.brand.trim()].length > productLimits.brandLength) {
    problems.brand = `Brand is longer than ${productLimits.brandLength} characters`;
  }
  if (form.homeSection && form.homePosition.trim()) {
    const position = readWhole(form.homePosition);
    if (position === null || position < 1 || position > productLimits.homePosition) {
      problems.homePosition = `The place must be a whole number from 1 to ${inWords.format(productLimits.homePosition)}`;
    }
  }
  for (const { column, label, maxLength } of productFacts) {
    if ([...form[column].trim()].length > maxLength) {
      problems[column] = `${label} is longer than ${maxLength} characters`;
    }
  }
  return problems;
}

/** The problem of a typed stock; null when it may be saved. */
export function checkStock(text: string): string | null {
  const stock = readWhole(text);
  if (stock === null) return 'Stock quantity must be a whole number';
  if (stock < 0) return 'Stock quantity must be non-negative';
  return stock > productLimits.stock
    ? `Stock quantity is more than ${inWords.format(productLimits.stock)}`
    : null;
}

/** The spelling of a brand that the shop has already, so that the storefront does not list it twice. */
export function knownSpelling(brand: string, brands: readonly string[]): string {
  const typed = tidyName(brand);
  return brands.find((known) => known.toLowerCase() === typed.toLowerCase()) ?? typed;
}

/**
 * A form as the columns it fills: trimmed, price in cents, empty texts as null.
 * @throws RangeError when the form has a problem
 */
export function productValues(form: ProductForm): ProductValues {
  const price = readShillings(form.price);
  const stock = readWhole(form.stock);
  if (price === null || stock === null) throw new RangeError('The form was not checked');
  return {
    name: form.name.trim(),
    slug: form.slug.trim(),
    tagline: form.tagline.trim() || null,
    price,
    previous_price: readShillings(form.previousPrice),
    stock_quantity: stock,
    low_stock_below: form.lowStockBelow.trim() ? readWhole(form.lowStockBelow) : null,
    category: form.category || null,
    brand: tidyName(form.brand) || null,
    home_section: (form.homeSection || null) as ProductHomeSection | null,
    home_position: form.homeSection && form.homePosition.trim() ? readWhole(form.homePosition) : null,
    ...factsOf((column) => form[column].trim() || null),
    description: form.description.trim() || null,
  };
}

/** Converts a product's columns to form fields. */
export function productFormOf(product: ProductValues): ProductForm {
  return {
    name: product.name,
    slug: product.slug,
    tagline: product.tagline ?? '',
    price: writeShillings(product.price),
    previousPrice: product.previous_price === null ? '' : writeShillings(product.previous_price),
    stock: String(product.stock_quantity ?? 0),
    lowStockBelow: String(product.low_stock_below ?? ''),
    category: product.category ?? '',
    brand: product.brand ?? '',
    homeSection: product.home_section ?? '',
    homePosition: product.home_section ? String(product.home_position ?? '') : '',
    ...factsOf((column) => product[column] ?? ''),
    description: product.description ?? '',
  };
}

const factsOf = <Value>(read: (column: FactColumn) => Value) =>
  Object.fromEntries(productFacts.map(({ column }) => [column, read(column)])) as Record<FactColumn, Value>;

/**
 * The form of a copy. It has no units, no place on the home page and another address.
 * @param product the original
 */
export function copiedForm(product: ProductValues): ProductForm {
  const form = productFormOf(product);
  return {
    ...form,
    slug: `${form.slug.slice(0, slugLength - '-copy'.length).replace(/-$/, '')}-copy`,
    stock: emptyProductForm.stock,
    homeSection: '',
    homePosition: '',
  };
}

/** The fields in which two forms differ, in the order they are shown. Spaces at the ends are no difference. */
export function changedFields(before: ProductForm, after: ProductForm): ProductField[] {
  return keysOf(emptyProductForm).filter((field) => before[field].trim() !== after[field].trim());
}

/**
 * Merges concurrent edits of a product: this staff member's changed fields, and the other's version of all others.
 * @param before as both of them saw it
 */
export function mergedForm(before: ProductForm, mine: ProductForm, theirs: ProductForm): ProductForm {
  const merged = { ...theirs };
  for (const field of changedFields(before, mine)) merged[field] = mine[field];
  return merged;
}

/**
 * Converts typed shillings to cents, exactly, without rounding.
 * @returns null when it is not a number, has more than two decimals, or is too long
 */
export function readShillings(text: string): number | null {
  const [, sign, whole = '', decimals = ''] = /^([+-]?)(\d*)(?:\.(\d*))?$/.exec(text.trim()) ?? [];
  if (sign === undefined || !(whole || decimals) || /[^0]/.test(decimals.slice(2))) return null;
  const cents = Number(`${whole}${decimals.slice(0, 2).padEnd(2, '0')}`);
  if (!Number.isSafeInteger(cents)) return null;
  return sign === '-' && cents > 0 ? -cents : cents;
}

/** Cents as shillings for a number field: `950`, or `950.50` when there are cents. */
export function writeShillings(cents: number): string {
  const sign = cents < 0 ? '-' : '';
  const digits = String(Math.abs(cents)).padStart(3, '0');
  const decimals = digits.slice(-2);
  return `${sign}${digits.slice(0, -2)}${decimals === '00' ? '' : `.${decimals}`}`;
}

/** Converts a typed whole number; null when it is none. */
export function readWhole(text: string): number | null {
  const trimmed = text.trim();
  if (!/^[+-]?\d+(\.0*)?$/.test(trimmed)) return null;
  const value = Number(trimmed);
  return value === 0 ? 0 : value;
}

// Letters that Unicode normalisation does not decompose.
const spelledOut: Record<string, string> = {
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  ß: 'ss',
  ł: 'l',
  đ: 'd',
  ð: 'd',
  þ: 'th',
  ı: 'i',
  ŋ: 'ng',
};

/**
 * A slug for a new product: lower-cased, other characters than letters, digits, spaces and hyphens removed, spaces to
 * hyphens, repeated hyphens collapsed. Letters are written without accents and no hyphen is at an end, since the database
 * takes no others.
 * @returns '' when the name has no usable characters
 */
export function slugFromName(name: string): string {
  return name
    .toLowerCase()
    .replace(/[æœøßłđðþıŋ]/g, (letter) => spelledOut[letter] ?? '')
    .normalize('NFKD')
    .replace(/[^a-z0-9\s-]/g, '')
    .replace(/[\s-]+/g, '-')
    .slice(0, slugLength)
    .replace(/^-|-$/g, '');
}

/**
 * Returns the problem of a category's name.
 * @param name as typed
 * @param others the names of the other categories
 * @returns null when it may be saved
 */
export function checkCategoryName(name: string, others: readonly string[]): string | null {
  const tidy = tidyName(name);
  if (visibleLength(tidy.slice(0, 1000)) === 0) return 'Category name is required';
  if ([...tidy].length > productLimits.categoryLength) {
    return `Category name is longer than ${productLimits.categoryLength} characters`;
  }
  return others.some((other) => other.toLowerCase() === tidy.toLowerCase()) ? categoryTaken : null;
}

/** Normalises the name of a category or brand: trimmed, with single spaces. */
export function tidyName(name: string): string {
  return name.trim().replace(/\s+/g, ' ');
}

const notAbovePrice = 'The price before an offer must be above the price';
const categoryTaken = 'There is a category of this name already';

/** An error of the table service for a rejected change. */
interface Refusal {
  code?: string;
  message: string;
}

// The error message contains the name of the violated constraint.
const brokenPromises: [string, ProductField, string][] = [
  ['product slugs are unique', 'slug', 'Another product has this slug already'],
  ['a product has a name', 'name', `Product name takes 1 to ${productLimits.nameLength} characters`],
  [
    'a slug is lower-case letters, digits and hyphens',
    'slug',
    'Product slug takes small letters a-z and digits, with single hyphens between them',
  ],
  ['a price is not negative', 'price', 'Price must be positive'],
  ['a previous price is above the price', 'previousPrice', notAbovePrice],
  ['stock is never below zero', 'stock', 'Stock quantity must be non-negative'],
  [
    'a low-stock threshold is not negative',
    'lowStockBelow',
    'The threshold must be a whole number, 0 or more',
  ],
  [
    'a brand is at most 160 characters',
    'brand',
    `Brand is longer than ${productLimits.brandLength} characters`,
  ],
  ["a product's category exists", 'category', 'This category was renamed or removed: choose again'],
];

/**
 * Returns the field of a database error, and its message.
 * @returns null when it is about no field
 */
export function productProblemOf(refusal: Refusal): { field: ProductField; text: string } | null {
  if (!refusal.code?.startsWith('23')) return null;
  const found = brokenPromises.find(([promise]) => refusal.message.includes(`"${promise}"`));
  return found ? { field: found[1], text: found[2] } : null;
}

/** The message beside a category's name for an error of the database; null when the error is not about the name. */
export function categoryProblemOf({ code, message }: Refusal): string | null {
  if (code === '23505' && message.includes('category names are unique')) return categoryTaken;
  if (code === '23514' && message.includes('a category has a name')) {
    return `Category name takes 1 to ${productLimits.categoryLength} characters`;
  }
  return null;
}
