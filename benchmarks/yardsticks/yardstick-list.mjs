// Yardstick: a bare node:http server that sends one SQL statement through `pg` or a bare PGlite and returns its text.
import { createServer } from 'node:http';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';

const { DATABASE_URL, DATABASE_FOLDER, PORT } = process.env;
const statement = {
  name: 'products',
  text: `select coalesce(json_agg(p), '[]')::text as body
         from (select * from public.products where is_active = true order by created_at desc) as p`,
};
let query;
if (DATABASE_FOLDER) {
  const database = await PGlite.create(DATABASE_FOLDER);
  query = () => database.query(statement.text);
} else {
  const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 10 });
  query = () => pool.query(statement);
}

const server = createServer(async (_request, response) => {
  const { rows } = await query();
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(rows[0].body);
});
server.listen(Number(PORT), '127.0.0.1', () => process.send?.('ready'));
