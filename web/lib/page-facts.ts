// What a page depends on. Notifications of the database are translated into these names. A cached page that has
// named its dependencies is valid until one of them changes; one that reads a table without naming any, until any row changes.

/** The shop's settings: name, contacts, delivery fee. */
export const settingsFact = 'store_settings';
/** The editable texts of the contact page. */
export const shopTextsFact = 'shop_texts';
/** The list of flavours. */
export const categoriesFact = 'categories';
/** The synonyms of the search. */
export const synonymsFact = 'search_synonyms';
/** All active products. */
export const productsFact = 'products';
/** Which products the home page shows, and in which order, without their contents. */
export const homeProductsFact = 'products:home';

/** The public fields of one product. */
export const productFact = (slug: string) => `products:slug:${slug}`;
/** Which products a category has, without their contents. */
export const categoryProductsFact = (category: string) => `products:category:${category}`;
