// Reversals and status requests: accepted at once, decided later, sent to the shop's result URL.
import { randomInt } from 'node:crypto';
import { openCredential } from '../certificate.ts';
import type { Faults } from '../faults/faults.ts';
import type { SimulatorClock } from '../ledger/clock.ts';
import type { InitiatedRequest, Ledger, Transaction } from '../ledger/ledger.ts';
import type { RequestDecided, RequestTaken } from '../ledger/ledger-entries.ts';
import { compactNairobiTime, nairobiTime } from '../ledger/nairobi-time.ts';
import { drawReceipt } from '../ledger/receipt.ts';
import type { SimulatorSettings } from '../settings.ts';
import { isAcceptedCallbackUrl } from './callback-url.ts';
import { badRequest, type DarajaError, drawRequestId } from './daraja-errors.ts';
import type { ResultCode } from './outcomes.ts';
import type { OutgoingMessages } from './outgoing-messages.ts';
import { type Fields, fieldText } from './request-fields.ts';
import { describeInitiatedResult } from './result-codes.ts';

export type InitiatedRequests = {
  /** Accepts a request, or returns Daraja's first validation error. */
  take(api: RequestTaken['api'], fields: Fields): Promise<Response | DarajaError>;
  /** After a restart: decides open requests and sends unsent results. */
  resume(): void;
};

export function createInitiatedRequests(dependencies: {
  settings: SimulatorSettings;
  clock: SimulatorClock;
  ledger: Ledger;
  faults: Faults;
  outgoing: OutgoingMessages;
}): InitiatedRequests {
  const { settings, clock, ledger, faults, outgoing } = dependencies;

  async function decide({ taken, decided }: InitiatedRequest): Promise<void> {
    if (decided) return;
    const at = clock.now();
    const resultCode = chooseResult(taken);
    const isReversed = taken.api === 'reversals' && resultCode === 0;
    const decision: RequestDecided = {
      kind: 'request decided',
      at,
      conversationId: taken.conversationId,
      resultCode,
      receipt: isReversed ? drawReceipt(at, ledger.hasReceipt) : null,
      moneyReturned: isReversed ? taken.amount : 0,
    };
    const written = ledger.write(decision);
    const planned = outgoing.plan({
      purpose: 'result',
      about: taken.conversationId,
      url: taken.resultUrl,
      body: writeResult(taken, decision, ledger, settings),
      dueAt: at,
    });
    await Promise.all([written, planned]);
  }

  function chooseResult(taken: RequestTaken): ResultCode {
    const isReversal = taken.api === 'reversals';
    const fault = faults.takeResultFault(isReversal ? 'reversalResults' : 'statusResults');
    if (fault) return fault.resultCode;
    if (!taken.isInitiatorRight) return 2001;
    if (!isReversal) return findSubject(taken, ledger) ? 0 : 2032;
    const transaction = ledger.transaction(taken.receipt);
    if (!transaction || taken.amount > transaction.amount) return 'R000002';
    return transaction.reversal ? 'R000001' : 0;
  }

  return {
    async take(api, fields) {
      const wrongField = findWrongField(api, fields, settings);
      if (wrongField) return badRequest(wrongField);
      const at = clock.now();
      const accepted: RequestTaken = {
        kind: 'request taken',
        at,
        api,
        conversationId: drawConversationId(at),
        originatorConversationId: drawRequestId(),
        receipt: fieldText(fields, 'TransactionID'),
        originalConversationId: fieldText(fields, 'OriginalConversationID'),
        amount: api === 'reversals' ? Number(fieldText(fields, 'Amount')) : 0,
        resultUrl: fieldText(fields, 'ResultURL'),
        timeoutUrl: fieldText(fields, 'QueueTimeOutURL'),
        isInitiatorRight:
          fieldText(fields, 'Initiator') === settings.initiatorName &&
          openCredential(fieldText(fields, 'SecurityCredential')) === settings.initiatorPassword,
      };
      await ledger.write(accepted);
      const request = ledger.request(accepted.conversationId);
      if (request) clock.at(at + settings.resultDelayMs, () => decide(request));
      return Response.json({
        OriginatorConversationID: accepted.originatorConversationId,
        ConversationID: accepted.conversationId,
        ResponseCode: '0',
        ResponseDescription: 'Accept the service request successfully.',
      });
    },
    resume() {
      for (const request of ledger.requests()) {
        if (!request.decided) clock.at(request.taken.at + settings.resultDelayMs, () => decide(request));
      }
    },
  };
}

function findWrongField(
  api: RequestTaken['api'],
  fields: Fields,
  { shortcode, tillNumber }: SimulatorSettings,
): string | null {
  const text = (name: string) => fieldText(fields, name);
  if (text('Initiator') === '') return 'Initiator';
  if (text('SecurityCredential') === '') return 'SecurityCredential';
  if (text('CommandID') !== (api === 'reversals' ? 'TransactionReversal' : 'TransactionStatusQuery')) {
    return 'CommandID';
  }
  const subject =
    api === 'reversals' ? text('TransactionID') : text('TransactionID') || text('OriginalConversationID');
  if (subject === '') return 'TransactionID';
  const party = api === 'reversals' ? 'ReceiverParty' : 'PartyA';
  if (![shortcode, tillNumber].includes(text(party))) return party;
  if (api === 'reversals') {
    if (!/^\d{1,6}$/.test(text('Amount')) || Number(text('Amount')) < 1) return 'Amount';
    // Daraja accepts only this misspelling.
    if (text('RecieverIdentifierType') !== '11') return 'RecieverIdentifierType';
  } else if (!['1', '2', '4'].includes(text('IdentifierType'))) return 'IdentifierType';
  if (!isAcceptedCallbackUrl(text('ResultURL'))) return 'ResultURL';
  if (!isAcceptedCallbackUrl(text('QueueTimeOutURL'))) return 'QueueTimeOutURL';
  const { length } = text('Remarks');
  return length >= 2 && length <= 100 ? null : 'Remarks';
}

/** `AG_20261121_2010…`: the Nairobi date and digits. */
function drawConversationId(at: number): string {
  const { year, month, day } = nairobiTime(at);
  const digits = Array.from({ length: 20 }, () => randomInt(16).toString(16)).join('');
  return `AG_${year}${month}${day}_${digits}`;
}

type Subject = { transaction: Transaction; isReversal: boolean };

/** Subject of a status request: a payment, or a reversal by its receipt or its conversation ID. */
function findSubject({ receipt, originalConversationId }: RequestTaken, ledger: Ledger): Subject | null {
  const paid = ledger.transaction(receipt);
  if (paid) return { transaction: paid, isReversal: false };
  const about = originalConversationId ? ledger.request(originalConversationId) : undefined;
  const reversalReceipt = about?.decided?.receipt ?? receipt;
  const reversed = ledger.transactions().find(({ reversal }) => reversal?.receipt === reversalReceipt);
  return reversed ? { transaction: reversed, isReversal: true } : null;
}

function writeResult(
  taken: RequestTaken,
  { resultCode, receipt, at }: RequestDecided,
  ledger: Ledger,
  settings: SimulatorSettings,
): string {
  const isReversal = taken.api === 'reversals';
  const parameters = resultCode !== 0 ? null : isReversal ? reversalParameters() : statusParameters();

  function reversalParameters() {
    const transaction = ledger.transaction(taken.receipt);
    return {
      DebitAccountBalance: 'Utility Account|KES|0.00|0.00|0.00|0.00',
      Amount: taken.amount,
      TransCompletedTime: Number(compactNairobiTime(at)),
      OriginalTransactionID: taken.receipt,
      Charge: 0,
      CreditPartyPublicName: `${transaction?.phone ?? ''} - ${transaction?.payerName ?? ''}`,
      DebitPartyPublicName: `${settings.shortcode} - ${settings.merchantName}`,
    };
  }

  function statusParameters() {
    const subject = findSubject(taken, ledger);
    if (!subject) return null;
    const { transaction, isReversal: isOfReversal } = subject;
    const { reversal } = transaction;
    const payer = `${transaction.phone} - ${transaction.payerName}`;
    const shop = `${settings.shortcode} - ${settings.merchantName}`;
    return {
      DebitPartyName: isOfReversal ? shop : payer,
      CreditPartyName: isOfReversal ? payer : shop,
      OriginatorConversationID: '',
      InitiatedTime: Number(compactNairobiTime(transaction.at)),
      DebitAccountType: isOfReversal ? 'Utility Account' : 'MMF Account For Customer',
      TransactionReason: '',
      ReasonType: isOfReversal ? 'Reversal' : 'Pay Bill',
      TransactionStatus: !isOfReversal && reversal ? 'Reversed' : 'Completed',
      FinalisedTime: Number(compactNairobiTime(isOfReversal && reversal ? reversal.at : transaction.at)),
      Amount: isOfReversal && reversal ? reversal.amount : transaction.amount,
      ConversationID: taken.conversationId,
      ReceiptNo: isOfReversal && reversal ? reversal.receipt : transaction.receipt,
    };
  }

  return JSON.stringify({
    Result: {
      ResultType: 0,
      ResultCode: resultCode,
      ResultDesc: describeInitiatedResult(resultCode),
      OriginatorConversationID: taken.originatorConversationId,
      ConversationID: taken.conversationId,
      // A failure has an ID, too, although no money moved.
      TransactionID: receipt ?? '0000000000',
      ...(parameters
        ? {
            ResultParameters: {
              ResultParameter: Object.entries(parameters).map(([Key, Value]) => ({ Key, Value })),
            },
          }
        : {}),
      ReferenceData: { ReferenceItem: { Key: 'QueueTimeoutURL', Value: taken.timeoutUrl } },
    },
  });
}
