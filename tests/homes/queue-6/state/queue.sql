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
, told_in TEXT, tainted INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "inbox" VALUES(1,'stdin:01a20d17-b539-7448-a5a2-423ffb2844e4','cli:cli','{"id":"stdin:01a20d17-b539-7448-a5a2-423ffb2844e4","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","route":{"channel":"cli","chat":"stdout"},"text":"remember that my sister Ana''s birthday is 3 May","wants_reply":false,"stream":false,"received_at":1795515987257}','done','01a20d17-b53d-74f3-ba78-3c99d297e585',1,1795515987257,1795515987321,NULL,NULL,NULL,0);
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
INSERT INTO "outbox" VALUES(1,'stdin:01a20d17-b539-7448-a5a2-423ffb2844e4','01a20d17-b53d-74f3-ba78-3c99d297e585','cli','stdout',NULL,NULL,1,1,NULL,'Kept as `workspace/memory/items/2026-11-24-my-sister-anas-birthday-is-3-may-chg8.md`: “My sister Ana''s birthday is 3 May.”','sent',1,0,'1795515987338',1795515987321,1795515987331,1795515987338,NULL,NULL,NULL,NULL,NULL);
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
INSERT INTO "seen" VALUES('stdin:01a20d17-b539-7448-a5a2-423ffb2844e4',1795515987257);
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
CREATE INDEX inbox_subagents ON inbox(envelope ->> '$.task.run_id') WHERE envelope ->> '$.task.run_id' IS NOT NULL;
CREATE INDEX inbox_told ON inbox(told_in) WHERE told_in IS NOT NULL;
CREATE INDEX inbox_session ON inbox(session_key, seq);
CREATE INDEX outbox_input ON outbox(inbox_id) WHERE inbox_id IS NOT NULL;
COMMIT;
PRAGMA user_version = 6;
