export function findRelease(root: string, id: string): string | null;
export function currentRelease(root: string): string | null;
export function nextRelease(root: string): string | null;
export function noteNext(root: string, id: string): void;
export function newRelease(root: string): string;
export function completeRelease(root: string, making: string, id: string): void;
export function switchTo(root: string, id: string): void;
