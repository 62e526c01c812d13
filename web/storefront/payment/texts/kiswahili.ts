// The texts of the payment dialog in Kiswahili, as people say it in Kenya. Loaded when a customer chooses it.
import { type ExplainedCode, explainedCode } from '../../../../domain/mpesa/payment-result.ts';
import type { PaymentTexts } from './english.ts';

const failures: Readonly<Record<ExplainedCode, string>> = {
  '1': 'Salio halitoshi. Tafadhali ongeza pesa kwenye M-PESA au tumia Fuliza. 💰',
  '1001': 'Kuna muamala mwingine unaoendelea. Tafadhali subiri kisha ujaribu tena. ⏳',
  '1019': 'Muda wa ombi umekwisha. Tafadhali jaribu tena. ⏰',
  '1025': 'Kumetokea hitilafu ya mfumo. Tafadhali jaribu tena. ⚠️',
  '1032': 'Malipo yameghairiwa. Tafadhali jaribu tena. ❌',
  '1037': 'Simu haipatikani. Tafadhali hakikisha imewashwa na ina mtandao. 📵',
  '2001': 'PIN ya M-PESA si sahihi. Tafadhali jaribu tena. 🔐',
};

/** Days in a time of arrival, such as `08:45 tomorrow` or `08:45 on Mon 30 Nov`. */
const days: Readonly<Record<string, string>> = {
  Mon: 'Jumatatu',
  Tue: 'Jumanne',
  Wed: 'Jumatano',
  Thu: 'Alhamisi',
  Fri: 'Ijumaa',
  Sat: 'Jumamosi',
  Sun: 'Jumapili',
};
const timeInKiswahili = (time: string): string =>
  time
    .replace(' tomorrow', ' kesho')
    .replace(
      / on (\w{3}) (\d+) \w{3}/,
      (_, day: string, date: string) => ` ${days[day] ?? day} tarehe ${date}`,
    );

export const kiswahili: PaymentTexts = {
  language: 'sw',
  payTitle: 'Lipa na M-PESA',
  payHow: 'Tunatuma ombi la malipo kwenye simu yako. Unathibitisha hapo kwa PIN yako.',
  phoneLabel: 'Nambari ya simu ya M-PESA',
  phoneProblem: 'Tafadhali weka nambari sahihi ya simu 📱',
  pay: (amount) => `Lipa ${amount}`,
  sending: 'Tunatuma ombi…',
  cancel: 'Ghairi',
  close: 'Funga',
  change: 'Badilisha',
  newOrder: 'Anza oda mpya',
  addDrink: 'Ongeza kinywaji kingine',
  payInCash: (amount) => `Lipa ${amount} pesa taslimu mlangoni`,
  payAnotherWay: 'Lipa kwa njia nyingine',
  youPay: 'Utalipa',
  promptEnded: (phone) => `Ombi kwenye ${phone} limeisha bila malipo.`,
  canPayNow: 'Unaweza kulipa sasa',
  offline: 'Huna mtandao.',
  noPromptSent: 'Hakuna ombi lililotumwa. Lipa simu yako ikipata mtandao tena.',
  otherNetwork: (network) =>
    `Hii inaonekana kuwa nambari ya ${network}. Maombi ya M-PESA hufika kwa nambari za Safaricom pekee.`,
  checkPhone: 'Angalia simu yako',
  enterPin: 'Weka PIN yako ya M-PESA kwenye ombi ili kuthibitisha.',
  stepAmount: 'Hakikisha kiasi ni ',
  stepPin: 'Weka PIN yako ya M-PESA',
  expect: 'Ombi hufika baada ya sekunde chache, na husubiri PIN yako kwa takriban dakika moja.',
  waiting: 'Tunasubiri M-PESA ithibitishe…',
  noPrompt: 'Hujaona ombi kwenye simu yako?',
  noPromptHow:
    'Fungua simu yako na uangalie mtandao. Ombi lisipofika, lipa mwenyewe kwenye menyu yako ya M-PESA.',
  onlyWithoutPrompt: 'Fanya hivyo tu ikiwa hakuna ombi linalosubiri kwenye simu yako.',
  unreachable: 'Duka halipatikani kwa sasa.',
  notLost: 'Ukilipa sasa, malipo yako hayatapotea. Tutayaonyesha hapa mtandao ukirudi.',
  slow: 'M-PESA inachukua muda. Si lazima usubiri hapa.',
  slowHow: 'Tunaendelea kuangalia, na ukurasa huu utaonyesha jibu M-PESA ikijibu:',
  orderPage: 'ukurasa wa oda yako',
  checkLater: 'Funga. Nitaangalia baadaye',
  received: 'Malipo yamepokelewa',
  thanks: (name) => `Asante, ${name}!`,
  thanksWithoutName: 'Asante!',
  arrivesBy: (time) => `Itakufikia kabla ya ${timeInKiswahili(time)}`,
  paid: 'Umelipa',
  receipt: 'Risiti',
  track: 'Fuatilia oda yako',
  addAnother: 'Agiza nyingine',
  keep: 'Weka kumbukumbu',
  reminder: ({ drinks, number }) => `Oda yangu ya ${drinks}, ${number}`,
  trackingNumber: 'Nambari ya kufuatilia',
  failedTitle: 'Malipo hayajakamilika',
  failedHow: 'Malipo hayo hayakufaulu.',
  noAnswer: 'Hatukupata jibu.',
  failure(code) {
    const explained = explainedCode(code);
    return explained ? failures[explained] : 'Malipo hayakufaulu. Tafadhali jaribu tena. ❌';
  },
  advice: (code) =>
    code === '17'
      ? 'M-PESA hupokea kiasi kilekile kutoka simu moja mara moja tu kwa dakika mbili. Kama umelipa sasa hivi, usilipe tena: tutayaona malipo yako. La sivyo, subiri dakika mbili, au lipa kwa simu nyingine.'
      : null,
  askedPhone: 'Tulituma ombi kwa simu hii',
  phoneToPayWith: 'Simu ya kulipa',
  promptMayCome: 'Ombi likifika kwenye simu yako, unaweza kulijibu. Hutalipa mara mbili.',
  withoutPrompt: 'Au lipa bila ombi',
  trouble: 'Una shida ya kulipa?',
  sortOut: 'Tutatatua pamoja nawe:',
  chat: 'Tuandikie kwa WhatsApp',
  or: 'au',
  call: (phone) => `piga ${phone}`,
  sendAgain: 'Tuma tena',
  tryAgain: 'Jaribu tena',
  tryAgainIn: (time) => `Jaribu tena baada ya ${time}`,
  oneMoment: 'Subiri kidogo',
  promptElsewhere: 'Simu nyingine ina ombi la malipo ya oda hii.',
  answerThatOne: (phone) =>
    `Tayari tumetuma ombi kwa ${phone}. Lijibu hilo kwanza, au subiri takriban dakika moja hadi liishe. Kisha unaweza kulipa kwa simu yako.`,
  nothingToPay: 'Hakuna cha kulipa kwa sasa.',
  doNotPayAgain: 'Tafadhali usilipe tena. Tutawasiliana nawe.',
  sameAgain: 'Unaweza kuagiza vilevile tena.',
  orderAgain: 'Agiza tena',
  payByHand:
    'Lipa mwenyewe kwenye menyu yako ya M-PESA. Fanya hivyo tu ikiwa hakuna ombi linalosubiri kwenye simu yako.',
  havePaid: 'Nimelipa: fuatilia oda yangu',
  backToPrompt: 'Rudi kwenye ombi',
  noPrompts: 'Maombi ya malipo hayafanyi kazi kwa sasa',
  noPromptsByHand:
    'Maombi ya M-PESA hayafanyi kazi kwa sasa, kwa hivyo lipa mwenyewe kwenye menyu yako ya M-PESA. Oda yako imehifadhiwa.',
  noPromptsHelp: 'Oda yako imehifadhiwa, na tunalishughulikia.',
  amount: 'Kiasi',
  tillNumber: 'Nambari ya till',
  businessNumber: 'Nambari ya biashara',
  accountNumber: 'Nambari ya akaunti',
  keepMessage:
    'Hifadhi ujumbe wa M-PESA: tutapata malipo yako kwa nambari ya risiti na kuyathibitisha, na ukurasa wa oda yako utayaonyesha mara moja. Ili kuharakisha, ',
  sendReceipt: 'tutumie risiti kwa WhatsApp',
  askCash: 'Lipa pesa taslimu mlangoni?',
  askCashHow: 'Tunaandaa vinywaji vyako sasa, na utamlipa mwendeshaji wetu vikifika.',
  haveReady: (amount) => `Tafadhali uwe na ${amount} tayari, kwa noti na sarafu ukiweza.`,
  chooseCash: 'Ndiyo, nitalipa pesa taslimu',
  payByMpesa: 'Lipa kwa M-PESA',
  cashTitle: 'Tunaandaa vinywaji vyako',
  cashHow: 'Asante! Utalipa pesa taslimu mlangoni.',
  riderCollects: (amount) =>
    `Mwendeshaji wetu ataleta vinywaji vyako na kupokea ${amount}. Tutakutumia ujumbe vikiwa njiani.`,
  payByMpesaInstead: 'Afadhali nilipe kwa M-PESA',
};
