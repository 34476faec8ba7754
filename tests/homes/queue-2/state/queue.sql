BEGIN TRANSACTION;
CREATE TABLE inbox(
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_key TEXT NOT NULL,
  envelope TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending' CHECK(state IN ('pending', 'running', 'done', 'dead')),
  run_id TEXT,
  attempts INTEGER NOT NULL DEFAULT 0,
  received_at INTEGER NOT NULL,
  finished_at INTEGER,
  result TEXT,
  reason TEXT
) STRICT;
INSERT INTO "inbox" VALUES(1,'01a214a4-f0e9-7542-a605-af6b9603fd95','cli:cli','{"id":"01a214a4-f0e9-7542-a605-af6b9603fd95","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that my sister Ana''s birthday is 3 May","wants_reply":true,"stream":false,"received_at":1795642683637}','done','01a214a4-f100-739d-8abf-85182f9e6e0d',1,1795642683637,1795642683764,'{"v":1,"id":"01a214a4-f0e9-7542-a605-af6b9603fd95","status":"done","reply":"Kept as `workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md`: “My sister Ana''s birthday is 3 May.”","session_id":"01a214a4-f101-7339-8042-cb651671984c","run_id":"01a214a4-f100-739d-8abf-85182f9e6e0d","tokens":2850,"cost_usd":0.0}',NULL);
INSERT INTO "inbox" VALUES(2,'01a214a4-f187-7770-9994-60badc936f1a','cli:cli','{"id":"01a214a4-f187-7770-9994-60badc936f1a","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"When is my sister Ana''s birthday?","wants_reply":true,"stream":false,"received_at":1795642683797}','done','01a214a4-f19c-758c-b6f9-e82910aa21e8',1,1795642683797,1795642683856,'{"v":1,"id":"01a214a4-f187-7770-9994-60badc936f1a","status":"done","reply":"This is what I find (quotations, found by their words; without a language model I do not understand them):\n\n> My sister Ana''s birthday is 3 May.\n— `workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e4g9.md:7`","session_id":"01a214a4-f101-7339-8042-cb651671984c","run_id":"01a214a4-f19c-758c-b6f9-e82910aa21e8","tokens":3227,"cost_usd":0.0}',NULL);
INSERT INTO "inbox" VALUES(3,'01a214a4-f1e3-7179-b446-f7c1bfa13411','cli:cli','{"id":"01a214a4-f1e3-7179-b446-f7c1bfa13411","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"!exec echo hello","wants_reply":true,"stream":false,"received_at":1795642683884}','done','01a214a4-f1f4-7381-a371-d93cf14726c0',1,1795642683884,1795642683960,'{"v":1,"id":"01a214a4-f1e3-7179-b446-f7c1bfa13411","status":"done","reply":"```\nhello\n```","session_id":"01a214a4-f101-7339-8042-cb651671984c","run_id":"01a214a4-f1f4-7381-a371-d93cf14726c0","tokens":3394,"cost_usd":0.0}',NULL);
CREATE TABLE offsets(
  bot INTEGER PRIMARY KEY,
  next_update_id INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE outbox(
  id INTEGER PRIMARY KEY,
  inbox_id TEXT,
  run_id TEXT,
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  reply_to TEXT,
  part INTEGER NOT NULL,
  parts INTEGER NOT NULL,
  markup TEXT,
  plain TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending' CHECK(state IN ('pending', 'sending', 'sent', 'unknown', 'dead')),
  attempts INTEGER NOT NULL DEFAULT 0,
  unknowns INTEGER NOT NULL DEFAULT 0,
  message_id TEXT,
  created_at INTEGER NOT NULL,
  sending_at INTEGER,
  sent_at INTEGER,
  reason TEXT
) STRICT;
CREATE TABLE routes(
  session_key TEXT PRIMARY KEY,
  sender TEXT NOT NULL,
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE seen(
  key TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "seen" VALUES('cmd:01a214a4-f0e9-7542-a605-af6b9603fd95',1795642683637);
INSERT INTO "seen" VALUES('cmd:01a214a4-f187-7770-9994-60badc936f1a',1795642683797);
INSERT INTO "seen" VALUES('cmd:01a214a4-f1e3-7179-b446-f7c1bfa13411',1795642683884);
CREATE INDEX seen_at ON seen(at);
CREATE INDEX inbox_open ON inbox(seq) WHERE state IN ('pending', 'running');
CREATE INDEX inbox_results ON inbox(finished_at) WHERE result IS NOT NULL;
CREATE INDEX inbox_dead ON inbox(seq) WHERE state = 'dead';
CREATE INDEX inbox_run ON inbox(run_id) WHERE run_id IS NOT NULL;
CREATE INDEX outbox_open ON outbox(id) WHERE state IN ('pending', 'sending', 'unknown');
CREATE INDEX outbox_dead ON outbox(id) WHERE state = 'dead';
COMMIT;
PRAGMA user_version = 2;
