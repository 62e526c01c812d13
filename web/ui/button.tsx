// Buttons, and links that look like them.
import type { ComponentProps } from 'react';

export type ButtonTone = 'leaf' | 'ember' | 'dusk' | 'outline' | 'quiet' | 'glass' | 'danger';
export type ButtonSize = 'medium' | 'large';

const shape =
  // Forced colours remove backgrounds: only a border distinguishes a button from text.
  'inline-flex items-center justify-center gap-2 rounded-pill font-bold no-underline select-none forced-colors:border ' +
  'transition-[background-color,border-color,color,box-shadow,translate] active:translate-y-px ' +
  'inactive:cursor-not-allowed inactive:border-transparent inactive:bg-line inactive:text-ink-soft inactive:shadow-none ' +
  'aria-busy:cursor-progress!';

const tones: Record<ButtonTone, string> = {
  leaf: 'bg-leaf-600 text-white shadow-md hover:bg-leaf-700',
  ember: 'bg-ember-300 text-ink shadow-md hover:bg-ember-200',
  dusk: 'bg-dusk-800 text-white hover:bg-dusk-700',
  outline: 'border-2 border-dusk-800 text-dusk-800 hover:bg-dusk-800 hover:text-white',
  quiet: 'bg-paper-deep text-ink hover:bg-line',
  glass: 'border border-white/45 bg-dusk-950/35 text-white hover:border-white hover:bg-dusk-950/60',
  danger: 'bg-danger text-white hover:brightness-110',
};

const sizes: Record<ButtonSize, string> = {
  medium: 'min-h-11 px-5 py-1.5 text-sm',
  large: 'min-h-13 px-7 py-1.5 text-base',
};

/** Classes of a button, for links in its style. */
export function buttonStyle(tone: ButtonTone = 'leaf', size: ButtonSize = 'medium'): string {
  return `${shape} ${tones[tone]} ${sizes[size]}`;
}

interface ButtonProps extends ComponentProps<'button'> {
  tone?: ButtonTone;
  size?: ButtonSize;
  /** Busy: ignores presses but stays focused, unlike a disabled button. */
  isBusy?: boolean;
}

export function Button({
  tone = 'leaf',
  size = 'medium',
  className = '',
  type = 'button',
  isBusy = false,
  onClick,
  ...rest
}: ButtonProps) {
  // Ignores the second click of a double-click: it would press the button that replaced this one, such as Pay after
  // Place Order.
  const isIgnored = (clicks: number) => isBusy || (type === 'submit' && clicks > 1);
  return (
    <button
      type={type}
      className={`${buttonStyle(tone, size)} ${className}`}
      aria-busy={isBusy || undefined}
      aria-disabled={isBusy || undefined}
      onClick={(event) => (isIgnored(event.detail) ? event.preventDefault() : onClick?.(event))}
      {...rest}
    />
  );
}
