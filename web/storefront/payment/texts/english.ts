// The texts of the payment dialog in English. `kiswahili.ts` has each of them, too: a missing one is a compile error.
import { adviseAfterFailure, describePaymentFailure } from '../../../../domain/mpesa/payment-result.ts';

export interface PaymentTexts {
  /** As in the attribute `lang`. */
  language: 'en' | 'sw';
  payTitle: string;
  payHow: string;
  phoneLabel: string;
  phoneProblem: string;
  pay(amount: string): string;
  sending: string;
  cancel: string;
  close: string;
  change: string;
  newOrder: string;
  addDrink: string;
  payInCash(amount: string): string;
  payAnotherWay: string;
  youPay: string;
  promptEnded(phone: string): string;
  canPayNow: string;
  offline: string;
  noPromptSent: string;
  otherNetwork(network: string): string;
  checkPhone: string;
  enterPin: string;
  stepAmount: string;
  stepPin: string;
  expect: string;
  waiting: string;
  noPrompt: string;
  noPromptHow: string;
  onlyWithoutPrompt: string;
  unreachable: string;
  notLost: string;
  slow: string;
  slowHow: string;
  orderPage: string;
  checkLater: string;
  received: string;
  thanks(name: string): string;
  thanksWithoutName: string;
  arrivesBy(time: string): string;
  paid: string;
  receipt: string;
  track: string;
  addAnother: string;
  keep: string;
  reminder(order: { drinks: string; number: string }): string;
  trackingNumber: string;
  failedTitle: string;
  failedHow: string;
  noAnswer: string;
  failure(code: string | null): string;
  advice(code: string | null): string | null;
  askedPhone: string;
  phoneToPayWith: string;
  promptMayCome: string;
  withoutPrompt: string;
  trouble: string;
  sortOut: string;
  chat: string;
  or: string;
  call(phone: string): string;
  sendAgain: string;
  tryAgain: string;
  tryAgainIn(time: string): string;
  oneMoment: string;
  promptElsewhere: string;
  answerThatOne(phone: string): string;
  nothingToPay: string;
  doNotPayAgain: string;
  sameAgain: string;
  orderAgain: string;
  payByHand: string;
  havePaid: string;
  backToPrompt: string;
  noPrompts: string;
  noPromptsByHand: string;
  noPromptsHelp: string;
  amount: string;
  tillNumber: string;
  businessNumber: string;
  accountNumber: string;
  keepMessage: string;
  sendReceipt: string;
  askCash: string;
  askCashHow: string;
  haveReady(amount: string): string;
  chooseCash: string;
  payByMpesa: string;
  cashTitle: string;
  cashHow: string;
  riderCollects(amount: string): string;
  payByMpesaInstead: string;
}

export const english: PaymentTexts = {
  language: 'en',
  payTitle: 'Pay with M-PESA',
  payHow: 'We send a prompt to your phone. You confirm it there with your PIN.',
  phoneLabel: 'M-PESA phone number',
  phoneProblem: 'Please enter a valid phone number 📱',
  pay: (amount) => `Pay ${amount}`,
  sending: 'Sending the prompt…',
  cancel: 'Cancel',
  close: 'Close',
  change: 'Change',
  newOrder: 'Start a new order',
  addDrink: 'Add another drink',
  payInCash: (amount) => `Pay ${amount} in cash at the door`,
  payAnotherWay: 'Pay another way',
  youPay: 'You pay',
  promptEnded: (phone) => `The prompt on ${phone} ended without payment.`,
  canPayNow: 'You can pay now',
  offline: 'You are offline.',
  noPromptSent: 'No prompt was sent. Pay as soon as your phone has a network again.',
  otherNetwork: (network) =>
    `This looks like a number of ${network}. M-PESA prompts reach Safaricom numbers only.`,
  checkPhone: 'Check your phone',
  enterPin: 'Enter your M-PESA PIN in the prompt to confirm.',
  stepAmount: 'Check that it asks for ',
  stepPin: 'Enter your M-PESA PIN',
  expect: 'The prompt comes within a few seconds, and waits about a minute for your PIN.',
  waiting: 'Waiting for M-PESA to confirm…',
  noPrompt: 'No prompt on your phone?',
  noPromptHow: 'Unlock your phone and check its network. If nothing comes, pay by hand in your M-PESA menu.',
  onlyWithoutPrompt: 'Only do so when no prompt is waiting on your phone.',
  unreachable: 'The shop cannot be reached right now.',
  notLost:
    "If you pay in the meantime, your payment is not lost. We'll show it here when the connection is back.",
  slow: 'M-PESA is taking a while. No need to stay here.',
  slowHow: 'We keep checking, and this page updates as soon as M-PESA answers:',
  orderPage: 'tracking page',
  checkLater: "Close. I'll check later",
  received: 'Payment received',
  thanks: (name) => `Asante, ${name}!`,
  thanksWithoutName: 'Asante!',
  arrivesBy: (time) => `Arrives by ${time}`,
  paid: 'Paid',
  receipt: 'Receipt',
  track: 'Track Your Order',
  addAnother: 'Add another order',
  keep: 'Keep as reminder',
  reminder: ({ drinks, number }) => `My order of ${drinks}, ${number}`,
  trackingNumber: 'Tracking number',
  failedTitle: 'Payment not completed',
  failedHow: "That payment didn't go through.",
  noAnswer: 'We got no answer.',
  failure: describePaymentFailure,
  advice: adviseAfterFailure,
  askedPhone: 'We asked this phone',
  phoneToPayWith: 'Phone to pay with',
  promptMayCome: "If a prompt comes to your phone after all, you can answer it. You won't pay twice.",
  withoutPrompt: 'Or pay without the prompt',
  trouble: 'Trouble paying?',
  sortOut: 'We will sort it out with you:',
  chat: 'WhatsApp us',
  or: 'or',
  call: (phone) => `call ${phone}`,
  sendAgain: 'Send it again',
  tryAgain: 'Try Again',
  tryAgainIn: (time) => `Try again in ${time}`,
  oneMoment: 'One moment',
  promptElsewhere: 'Another phone has a prompt for this order.',
  answerThatOne: (phone) =>
    `We've already sent a prompt to ${phone}. Answer that one first, or wait about a minute until it ends. Then you can pay with your phone.`,
  nothingToPay: 'There is nothing to pay right now.',
  doNotPayAgain: 'Please do not pay again. Our team gets in touch.',
  sameAgain: 'You can order the same again.',
  orderAgain: 'Order again',
  payByHand: 'Pay by hand in your M-PESA menu. Only do so when no prompt is waiting on your phone.',
  havePaid: 'I have paid: track my order',
  backToPrompt: 'Back to the prompt',
  noPrompts: 'Prompts do not work right now',
  noPromptsByHand:
    'M-PESA prompts do not work right now, so pay by hand in your M-PESA menu. Your order is saved.',
  noPromptsHelp: 'Your order is saved, and our team is on it.',
  amount: 'Amount',
  tillNumber: 'Till number',
  businessNumber: 'Business number',
  accountNumber: 'Account number',
  keepMessage:
    "Keep M-PESA's message: our team finds your payment by its receipt and confirms it, and your tracking page shows it at once. To speed it up, ",
  sendReceipt: 'send us the receipt on WhatsApp',
  askCash: 'Pay in cash at the door?',
  askCashHow: 'We prepare your drinks now, and you pay our rider when they arrive.',
  haveReady: (amount) => `Please have ${amount} ready, in notes and coins if you can.`,
  chooseCash: 'Yes, I pay in cash',
  payByMpesa: 'Pay by M-PESA',
  cashTitle: 'We are preparing your drinks',
  cashHow: 'Asante! You pay in cash at the door.',
  riderCollects: (amount) =>
    `Our rider brings your drinks and collects ${amount}. We message you when they are on their way.`,
  payByMpesaInstead: 'Pay by M-PESA instead',
};
