// What a page is made from, in names that the database's announcements of changes are translated into. A page that has
// named what it shows is kept until one of these changes; one that reads a table and names nothing of it, until any row does.

/** The settings of the shop: the name, contacts, the delivery fee. */
export const settingsFact = 'store_settings';
/** The texts of the contact page that staff edit. */
export const shopTextsFact = 'shop_texts';
/** Which flavours there are. */
export const categoriesFact = 'categories';
/** The synonyms of the search: which products a search finds. */
export const synonymsFact = 'search_synonyms';
/** Every product that visitors see, and which there are. */
export const productsFact = 'products';
/** Which products the home page shows, and in which order; not what it shows of them. */
export const homeProductsFact = 'products:home';

/** What visitors see of one product. */
export const productFact = (slug: string) => `products:slug:${slug}`;
/** Which products a category has; not what is shown of them. */
export const categoryProductsFact = (category: string) => `products:category:${category}`;
