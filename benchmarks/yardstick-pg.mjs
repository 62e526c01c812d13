// Yardstick: a bare node:http server that sends one SQL statement through pg and returns its text.
import { createServer } from 'node:http';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 10 });
const statement = {
  name: 'products',
  text: `select coalesce(json_agg(p), '[]')::text as body
         from (select * from public.products where is_active = true order by created_at desc) as p`,
};

const server = createServer(async (_request, response) => {
  const { rows } = await pool.query(statement);
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(rows[0].body);
});
server.listen(Number(process.env.PORT), '127.0.0.1', () => process.send?.('ready'));
