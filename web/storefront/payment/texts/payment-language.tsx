// The language of the payment dialog: English, or Kiswahili by a switch that this device remembers.
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from 'react';
import { deviceStorage } from '../../../lib/browser/browser-storage.ts';
import { english, type PaymentTexts } from './english.ts';

type Language = PaymentTexts['language'];

const languageKey = 'jani.payment-language';

/** @returns English where nothing, or something else, is stored */
export function storedLanguage(storage = deviceStorage()): Language {
  try {
    return storage?.getItem(languageKey) === 'sw' ? 'sw' : 'en';
  } catch {
    return 'en';
  }
}

export function storeLanguage(language: Language, storage = deviceStorage()): void {
  try {
    if (language === 'en') storage?.removeItem(languageKey);
    else storage?.setItem(languageKey, language);
  } catch {
    // Without storage the choice ends with the dialog.
  }
}

const load = async (language: Language): Promise<PaymentTexts> =>
  language === 'en' ? english : (await import('./kiswahili.ts')).kiswahili;

interface Choice {
  texts: PaymentTexts;
  choose(language: Language): void;
}

const LanguageContext = createContext<Choice>({ texts: english, choose() {} });

export const usePaymentTexts = (): PaymentTexts => useContext(LanguageContext).texts;

export function PaymentLanguage({ children }: { children: ReactNode }) {
  const [texts, setTexts] = useState(english);
  const choice = useMemo(() => {
    const show = (language: Language) =>
      load(language).then(setTexts, (error: unknown) => console.warn('The texts did not load', error));
    return {
      show,
      choose(language: Language) {
        storeLanguage(language);
        void show(language);
      },
    };
  }, []);
  useEffect(() => {
    if (storedLanguage() === 'sw') void choice.show('sw');
  }, [choice]);
  const value = useMemo(() => ({ texts, choose: choice.choose }), [texts, choice]);
  return (
    <LanguageContext value={value}>
      <div lang={texts.language} className="contents">
        {children}
      </div>
    </LanguageContext>
  );
}

const languages = [
  ['en', 'English'],
  ['sw', 'Kiswahili'],
] as const;

export function LanguageSwitch() {
  const { texts, choose } = useContext(LanguageContext);
  return (
    // On a phone in landscape beside the heading, so that amount and phone are in sight.
    // biome-ignore lint/a11y/useSemanticElements: a fieldset has no place in a line of text
    <div
      role="group"
      aria-label="Language"
      className="-mr-2 -mb-2.5 flex justify-end text-sm low:absolute low:top-4 low:right-16 low:m-0"
    >
      {languages.map(([language, name]) => (
        <button
          key={language}
          type="button"
          lang={language}
          aria-pressed={texts.language === language}
          onClick={() => choose(language)}
          className="min-h-11 rounded-md px-2 font-semibold text-dusk-600 underline underline-offset-2 aria-pressed:text-ink aria-pressed:no-underline"
        >
          {name}
        </button>
      ))}
    </div>
  );
}
