export function flattenLayers(css: string): string;
