PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE seen(
  key TEXT PRIMARY KEY,
  at INTEGER NOT NULL
, digest TEXT) STRICT, WITHOUT ROWID;
INSERT INTO seen VALUES('cmd:01a2157c-866a-7257-bbad-852773859499',1795656812141,'afcc2654142ee0a8fd5e3b1d6a3c7fff6dd9cff8bb837536ad5636a3b8358f39');
INSERT INTO seen VALUES('cmd:01a2157c-86b3-73bd-a902-ddc26ad57ed6',1795656812213,'4a8550f61bc58952a4502a552bbeb05a37433681c9f7085ee9dc75381f2caf57');
INSERT INTO seen VALUES('cmd:01a2157c-86e2-700e-b4e1-039b3accf58b',1795656812265,'fb3a1854ee89524955c24b91388197d8b4d60174e1e7f76986be85ef2f473474');
CREATE TABLE offsets(
  bot INTEGER PRIMARY KEY,
  next_update_id INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
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
, told_in TEXT, tainted INTEGER NOT NULL DEFAULT 0, wake_at INTEGER, suspended TEXT, deaths INTEGER NOT NULL DEFAULT 0, deaths_alone INTEGER NOT NULL DEFAULT 0, first_death_at INTEGER, idle INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO inbox VALUES(1,'01a2157c-866a-7257-bbad-852773859499','cli:cli','{"id":"01a2157c-866a-7257-bbad-852773859499","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Berta''s dog is called Rex","wants_reply":true,"stream":false,"received_at":1795656812141}','done','01a2157c-8670-77be-9d4d-10fb21f648a2',1,1795656812141,1795656812198,'{"v":1,"id":"01a2157c-866a-7257-bbad-852773859499","status":"done","reply":"Kept as `workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md`: “Berta''s dog is called Rex.”","session_id":"01a2157c-8671-7323-a1fd-6d1ec2941a47","run_id":"01a2157c-8670-77be-9d4d-10fb21f648a2","tokens":2679,"output_tokens":56,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO inbox VALUES(2,'01a2157c-86b3-73bd-a902-ddc26ad57ed6','cli:cli','{"id":"01a2157c-86b3-73bd-a902-ddc26ad57ed6","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"What is Berta''s dog called?","wants_reply":true,"stream":false,"received_at":1795656812213}','done','01a2157c-86b6-72e0-bb82-4355f9bef73e',1,1795656812213,1795656812233,'{"v":1,"id":"01a2157c-86b3-73bd-a902-ddc26ad57ed6","status":"done","reply":"This is what I find (quotations, found by their words; without a language model I do not understand them):\n\n> Berta''s dog is called Rex.\n— `workspace/memory/items/2026-11-26-bertas-dog-is-called-rex-d5v4.md:7`","session_id":"01a2157c-8671-7323-a1fd-6d1ec2941a47","run_id":"01a2157c-86b6-72e0-bb82-4355f9bef73e","tokens":3102,"output_tokens":84,"cost_usd":0.0}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO inbox VALUES(3,'01a2157c-86e2-700e-b4e1-039b3accf58b','cli:cli','{"id":"01a2157c-86e2-700e-b4e1-039b3accf58b","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"/status","command":{"name":"status"},"wants_reply":true,"stream":false,"received_at":1795656812265}','done','01a2157c-86eb-76c6-99ab-b82cf3c1e7ce',0,1795656812265,1795656812267,'{"v":1,"id":"01a2157c-86e2-700e-b4e1-039b3accf58b","status":"done","reply":"I am not working on anything of yours.\nRuns: 0. Conversations: 1. Model: offline."}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
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
, files TEXT, reaction TEXT, buttons TEXT, asks TEXT, task INTEGER) STRICT;
CREATE TABLE routes(
  session_key TEXT PRIMARY KEY,
  sender TEXT NOT NULL,
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE notes(
  id INTEGER PRIMARY KEY,
  session_key TEXT NOT NULL,
  at INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;
CREATE TABLE shown(
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  message_id TEXT NOT NULL, inbox_id TEXT,
  PRIMARY KEY(channel, chat, message_id)
) STRICT, WITHOUT ROWID;
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
  decided_at INTEGER, rule TEXT, rule_bound TEXT, wanted TEXT,
  UNIQUE(inbox_id, call_id, bound)
) STRICT;
CREATE TABLE grants(
  session_id TEXT NOT NULL,
  bound TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(session_id, bound)
) STRICT, WITHOUT ROWID;
CREATE TABLE tasks(
  seq INTEGER PRIMARY KEY,
  session_key TEXT NOT NULL,
  inbox_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  depends_on TEXT NOT NULL,
  lead_ms INTEGER NOT NULL,
  task TEXT NOT NULL,
  answer TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('blocked', 'ready', 'done', 'dead', 'cancelled')),
  due_at INTEGER,
  retries INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  UNIQUE(run_id, id)
) STRICT;
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
CREATE INDEX tasks_ready ON tasks(due_at) WHERE state = 'ready';
CREATE INDEX tasks_open ON tasks(session_key) WHERE state IN ('blocked', 'ready');
CREATE INDEX tasks_session ON tasks(session_key, seq);
CREATE INDEX outbox_task ON outbox(task) WHERE task IS NOT NULL;
CREATE INDEX seen_digest ON seen(digest, at) WHERE digest IS NOT NULL;
COMMIT;
PRAGMA user_version = 11;
