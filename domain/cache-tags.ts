// Cache tags: names of what a page depends on. The server translates database notifications into them. A cached page is valid
// until one of its dependencies changes. A page that reads tables without declaring dependencies is valid until any
// row changes.

/** The shop's settings: name, contacts, delivery fee, opening hours. */
export const settingsTag = 'store_settings';
/** The editable texts of the contact page. */
export const shopTextsTag = 'shop_texts';
/** The list of flavours. */
export const categoriesTag = 'categories';
/** The brands. */
export const brandsTag = 'brands';
/** The synonyms of the search. */
export const synonymsTag = 'search_synonyms';
/** The words of customers that the storefront shows. */
export const quotesTag = 'ratings';
/** The areas of delivery. */
export const deliveryAreasTag = 'delivery_areas';
/** All active products. */
export const productsTag = 'products';
/** The products on the home page and their order, without their contents. */
export const homeProductsTag = 'products:home';

/** The public fields of one product. */
export const productTag = (slug: string) => `products:slug:${slug}`;
/** The products of a category, without their contents. */
export const categoryProductsTag = (category: string) => `products:category:${category}`;
