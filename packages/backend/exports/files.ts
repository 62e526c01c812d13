// Durable files, and the lock of a data folder.
export { FolderInUse, lockFolder, NoTemporaryFolder } from '../database/pglite/folder-lock.ts';
export { syncFile, writeDurably } from '../durable-file.ts';
