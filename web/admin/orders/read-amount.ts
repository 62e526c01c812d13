/** Whole shillings, as typed or as in M-PESA's message (`Ksh1,201.00`), in cents; null for anything else. */
export const readAmount = (text: string): number | null => {
  const shillings = /^(?:ksh|kes)?\.?\s*(\d{1,7})(?:\.00?)?$/i.exec(
    text.slice(0, 30).trim().replaceAll(',', ''),
  )?.[1];
  return shillings && Number(shillings) > 0 ? Number(shillings) * 100 : null;
};
