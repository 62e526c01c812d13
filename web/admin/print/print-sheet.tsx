// Prints a separate sheet instead of the screen: black on white, removed after printing.
import { type ReactNode, useEffect, useRef } from 'react';
import { createPortal } from 'react-dom';
import './print-sheet.css';

interface PrintSheetProps {
  /** `roll`: an 80 mm receipt printer, whose page is as long as its content. */
  paper: 'page' | 'roll';
  onPrinted(): void;
  children: ReactNode;
}

const mmPerPixel = 25.4 / 96;

export function PrintSheet({ paper, onPrinted, children }: PrintSheetProps) {
  const sheet = useRef<HTMLDivElement>(null);
  const printed = useRef(onPrinted);
  useEffect(() => {
    printed.current = onPrinted;
  });
  useEffect(() => {
    const length = Math.ceil((sheet.current?.offsetHeight ?? 0) * mmPerPixel) + 12;
    const page = document.createElement('style');
    page.textContent = `@page { ${paper === 'roll' ? `size: 80mm ${length}mm; margin: 0` : 'size: A4; margin: 12mm'} }`;
    document.head.append(page);
    const done = () => printed.current();
    window.addEventListener('afterprint', done);
    window.print();
    return () => {
      window.removeEventListener('afterprint', done);
      page.remove();
    };
  }, [paper]);
  return createPortal(
    <div ref={sheet} data-paper={paper} className="print-sheet">
      {children}
    </div>,
    document.body,
  );
}
