# The shop in a container: docker build --target shop -t jani . (compose.yaml runs it with PostgreSQL, PgBouncer and Caddy).

FROM node:24-trixie-slim AS build
WORKDIR /srv/jani
COPY package.json package-lock.json ./
COPY packages/backend/package.json packages/backend/
COPY packages/daraja-simulator/package.json packages/daraja-simulator/
# Not `npm ci`: it refuses a lockfile written on another platform.
RUN npm install --no-audit --no-fund --include=dev
COPY . .
# The release has packages of its own.
RUN node scripts/build.mjs && rm -rf node_modules

FROM node:24-trixie-slim AS shop
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
WORKDIR /srv/jani
COPY --from=build /srv/jani ./
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=6s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:'+process.env.PORT+'/readyz').then((r)=>process.exit(r.ok?0:1),()=>process.exit(1))"]
# The process itself receives SIGTERM, not npm.
CMD ["node", "scripts/start.mjs", "--as-built"]

FROM debian:trixie-slim AS pgbouncer
RUN apt-get update && apt-get install -y --no-install-recommends pgbouncer && rm -rf /var/lib/apt/lists/*
USER postgres
EXPOSE 6432
CMD ["pgbouncer", "/etc/pgbouncer/shop.ini"]
