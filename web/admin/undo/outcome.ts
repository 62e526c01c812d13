// What came of an undo on the server.
import { isUnanswered, messageForUser, SavedWithoutAnswer } from '../data/table-answer.ts';

export interface Outcome {
  title: 'Undone' | 'Not undone' | 'No answer';
  /** A sentence: what is as before, or why nothing is. */
  text: string;
}

interface Texts {
  undone: string;
  /** Where nobody knows whether it was undone. */
  unanswered: string;
  /** What to look at after a refusal without words of its own. Default: 'it'. */
  subject?: string;
}

/**
 * Undoes something and says what came of it; an undo whose answer was lost is one.
 * @param work throws as `dataOf` does
 */
export async function outcomeOf(work: () => Promise<unknown>, texts: Texts): Promise<Outcome> {
  try {
    await work();
  } catch (thrown) {
    const error = thrown as Error;
    if (isUnanswered(error)) return { title: 'No answer', text: texts.unanswered };
    if (!(error instanceof SavedWithoutAnswer)) {
      const { subject = 'it' } = texts;
      return { title: 'Not undone', text: messageForUser(error) || `Please look at ${subject} again.` };
    }
  }
  return { title: 'Undone', text: texts.undone };
}
