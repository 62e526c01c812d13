// Checks the database and M-PESA's ledger: every invariant of scripts/databases/money-invariants.sql.
import pg from 'pg';
import { readInvariants } from '../scripts/databases/money-invariants.ts';

/** The simulator's ledger: all transactions and prompts. */
export interface LedgerPage {
  transactions: {
    receipt: string;
    at: number;
    /** Whole shillings. */
    amount: number;
    reference: string;
    /** Null for payments without a prompt. */
    checkoutRequestId: string | null;
    /** Amount in whole shillings. */
    reversal: { receipt: string; amount: number } | null;
  }[];
  prompts: {
    checkoutRequestId: string;
    accountReference: string;
    phone: string;
    state: 'open' | 'decided';
  }[];
  /** Requests of the initiator that M-PESA accepted. */
  requests: { api: 'reversals' | 'statuses'; receipt: string; resultUrl: string }[];
}

export interface Violation {
  invariant: string;
  subject: string;
  found: string;
}

/**
 * Finds violations.
 * @param url of the database, which is read in one snapshot, before the ledger, which only grows
 * @param readLedger the simulator's ledger
 * @param stock initial stock per product
 * @param isAtRest whether every open payment could be queried
 */
export async function findViolations(
  url: string,
  readLedger: () => Promise<LedgerPage>,
  stock: ReadonlyMap<string, number>,
  isAtRest: boolean,
): Promise<Violation[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query('begin isolation level repeatable read');
    // The first query takes the snapshot.
    await client.query(
      'create temporary view unmatched as select receipt from public.mpesa_transactions where payment_id is null',
    );
    await fill(client, await readLedger(), stock);
    const violations: Violation[] = [];
    for (const { title, sql, ...condition } of await readInvariants()) {
      if (condition.isAtRest && !isAtRest) continue;
      const { rows } = await client.query<{ subject: string; found: string }>(sql);
      violations.push(...rows.map((row) => ({ invariant: title, ...row })));
    }
    return violations;
  } finally {
    await client.end();
  }
}

async function fill(client: pg.Client, page: LedgerPage, stock: ReadonlyMap<string, number>): Promise<void> {
  const transactions = page.transactions.map(({ receipt, amount, reference, checkoutRequestId }) => ({
    receipt,
    cents: amount * 100,
    checkout_request_id: checkoutRequestId,
    reference,
  }));
  const prompts = page.prompts.map((prompt) => ({
    checkout_request_id: prompt.checkoutRequestId,
    reference: prompt.accountReference,
    phone: prompt.phone.slice(-9),
    is_decided: prompt.state === 'decided',
  }));
  const reversals = page.transactions.flatMap(({ receipt, reversal }) =>
    reversal ? [{ receipt, reversal_receipt: reversal.receipt, cents: reversal.amount * 100 }] : [],
  );
  const requests = page.requests
    .filter(({ api }) => api === 'reversals')
    // Each refund has its own URL path, whichever process requests it.
    .map(({ receipt, resultUrl }) => ({ receipt, address: new URL(resultUrl).pathname }));
  const units = [...stock].map(([product_id, count]) => ({ product_id, units: count }));
  const tables: [string, string, unknown][] = [
    ['ledger', 'receipt text, cents integer, checkout_request_id text, reference text', transactions],
    ['prompts', 'checkout_request_id text, reference text, phone text, is_decided boolean', prompts],
    ['reversals', 'receipt text, reversal_receipt text, cents integer', reversals],
    ['reversal_requests', 'receipt text, address text', requests],
    ['stock', 'product_id uuid, units integer', units],
  ];
  for (const [name, columns, rows] of tables) {
    await client.query(`create temporary table ${name} (${columns}) on commit drop`);
    await client.query(
      `insert into ${name} select * from jsonb_to_recordset($1::jsonb) as row (${columns})`,
      [JSON.stringify(rows)],
    );
  }
  await client.query(`
    create index on ledger (receipt);
    create index on ledger (checkout_request_id);
    create index on prompts (checkout_request_id);
    create index on reversals (receipt);
    analyze ledger, prompts, reversals, reversal_requests, stock;
  `);
}
