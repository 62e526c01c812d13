// Shares a link with the system's share dialog, or copies it.
import { copyText } from '../../ui/copy-text.ts';

/** @returns `shared` also if the visitor cancelled; `refused` if the browser can neither share nor copy */
export async function shareLink(url: string, title: string): Promise<'shared' | 'copied' | 'refused'> {
  try {
    if (navigator.share) {
      await navigator.share({ url, title });
      return 'shared';
    }
  } catch (error) {
    // Cancelling the share dialog does not copy the URL.
    if (error instanceof DOMException && error.name === 'AbortError') return 'shared';
  }
  return (await copyText(url)) ? 'copied' : 'refused';
}
