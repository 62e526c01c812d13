// What is wrong with what staff type about money that goes back; undefined when nothing is. The database checks the same.

/** @param reason also a note: one rule for both */
export const reasonProblem = (reason: string): string | undefined => {
  const { length } = [...reason.trim()];
  return length < 3 || length > 200 ? 'Please say why, in 3 to 200 characters' : undefined;
};

export function receiptProblem(typed: string): string | undefined {
  return /^[A-Z0-9]{10}$/.test(typed.replace(/\s/g, '').toUpperCase())
    ? undefined
    : 'An M-PESA receipt has ten letters and digits, such as UKL3AB12CD';
}
