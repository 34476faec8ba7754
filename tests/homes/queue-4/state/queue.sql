BEGIN TRANSACTION;
CREATE TABLE approvals(
  id TEXT PRIMARY KEY,
  batch TEXT NOT NULL,
  session_key TEXT NOT NULL,
  session_id TEXT NOT NULL,
  inbox_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  question TEXT NOT NULL,
  why TEXT NOT NULL,
  bound TEXT NOT NULL,
  repeatable INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending'
    CHECK(state IN ('pending', 'approved', 'used', 'denied', 'expired', 'withdrawn')),
  answer TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_at INTEGER,
  UNIQUE(inbox_id, call_id, bound)
) STRICT;
CREATE TABLE grants(
  session_id TEXT NOT NULL,
  bound TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(session_id, bound)
) STRICT, WITHOUT ROWID;
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
INSERT INTO "inbox" VALUES(1,'01a214a4-f3e1-75ba-a66c-33afe69ea333','cli:cli','{"id":"01a214a4-f3e1-75ba-a66c-33afe69ea333","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that my sister Ana''s birthday is 3 May","wants_reply":true,"stream":false,"received_at":1795642684407}','done','01a214a4-f401-7145-80da-13112dae9675',1,1795642684407,1795642684536,'{"v":1,"id":"01a214a4-f3e1-75ba-a66c-33afe69ea333","status":"done","reply":"Kept as `workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-8k6e.md`: “My sister Ana''s birthday is 3 May.”","session_id":"01a214a4-f405-76fb-be97-6c6b11d01588","run_id":"01a214a4-f401-7145-80da-13112dae9675","tokens":3776,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-8k6e.md"]}',NULL);
INSERT INTO "inbox" VALUES(2,'01a214a4-f487-726c-8512-720759f0346b','cli:cli','{"id":"01a214a4-f487-726c-8512-720759f0346b","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"When is my sister Ana''s birthday?","wants_reply":true,"stream":false,"received_at":1795642684562}','done','01a214a4-f4a1-76d2-b8cf-be3c9cbea329',1,1795642684562,1795642684628,'{"v":1,"id":"01a214a4-f487-726c-8512-720759f0346b","status":"done","reply":"This is what I find (quotations, found by their words; without a language model I do not understand them):\n\n> My sister Ana''s birthday is 3 May.\n— `workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-8k6e.md:7`","session_id":"01a214a4-f405-76fb-be97-6c6b11d01588","run_id":"01a214a4-f4a1-76d2-b8cf-be3c9cbea329","tokens":4153,"cost_usd":0.0}',NULL);
INSERT INTO "inbox" VALUES(3,'01a214a4-f4f3-72b4-91fe-9d59c5308a4b','cli:cli','{"id":"01a214a4-f4f3-72b4-91fe-9d59c5308a4b","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"!exec echo hello","wants_reply":true,"stream":false,"received_at":1795642684665}','done','01a214a4-f4fd-7419-b6a5-ebb41cf5a01c',1,1795642684665,1795642684744,'{"v":1,"id":"01a214a4-f4f3-72b4-91fe-9d59c5308a4b","status":"done","reply":"```\nhello\n```","session_id":"01a214a4-f405-76fb-be97-6c6b11d01588","run_id":"01a214a4-f4fd-7419-b6a5-ebb41cf5a01c","tokens":4320,"cost_usd":0.0,"receipts":["ran echo hello"]}',NULL);
CREATE TABLE notes(
  id INTEGER PRIMARY KEY,
  session_key TEXT NOT NULL,
  at INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;
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
, files TEXT, reaction TEXT, buttons TEXT, asks TEXT) STRICT;
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
INSERT INTO "seen" VALUES('cmd:01a214a4-f3e1-75ba-a66c-33afe69ea333',1795642684407);
INSERT INTO "seen" VALUES('cmd:01a214a4-f487-726c-8512-720759f0346b',1795642684562);
INSERT INTO "seen" VALUES('cmd:01a214a4-f4f3-72b4-91fe-9d59c5308a4b',1795642684665);
CREATE TABLE shown(
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  message_id TEXT NOT NULL,
  PRIMARY KEY(channel, chat, message_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_at ON seen(at);
CREATE INDEX inbox_open ON inbox(seq) WHERE state IN ('pending', 'running');
CREATE INDEX inbox_results ON inbox(finished_at) WHERE result IS NOT NULL;
CREATE INDEX inbox_dead ON inbox(seq) WHERE state = 'dead';
CREATE INDEX inbox_run ON inbox(run_id) WHERE run_id IS NOT NULL;
CREATE INDEX outbox_open ON outbox(id) WHERE state IN ('pending', 'sending', 'unknown');
CREATE INDEX outbox_dead ON outbox(id) WHERE state = 'dead';
CREATE INDEX notes_session ON notes(session_key, id);
CREATE INDEX outbox_asks ON outbox(asks) WHERE asks IS NOT NULL;
CREATE INDEX approvals_open ON approvals(created_at) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_batch ON approvals(batch);
COMMIT;
PRAGMA user_version = 4;
