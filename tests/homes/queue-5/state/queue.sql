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
INSERT INTO "inbox" VALUES(1,'01a214a4-f756-7215-a736-78a1e41b12b9','cli:cli','{"id":"01a214a4-f756-7215-a736-78a1e41b12b9","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that my sister Ana''s birthday is 3 May","wants_reply":true,"stream":false,"received_at":1795642685355}','done','01a214a4-f7b0-744e-8bf2-b6d5a681d398',1,1795642685355,1795642685456,'{"v":1,"id":"01a214a4-f756-7215-a736-78a1e41b12b9","status":"done","reply":"Kept as `workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md`: “My sister Ana''s birthday is 3 May.”","session_id":"01a214a4-f7b8-76fe-b4e8-1099fc0c65ca","run_id":"01a214a4-f7b0-744e-8bf2-b6d5a681d398","tokens":3808,"output_tokens":63,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md"]}',NULL,NULL,0);
INSERT INTO "inbox" VALUES(2,'01a214a4-f834-7281-aabf-3d41f4930790','cli:cli','{"id":"01a214a4-f834-7281-aabf-3d41f4930790","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"When is my sister Ana''s birthday?","wants_reply":true,"stream":false,"received_at":1795642685508}','done','01a214a4-f84c-71a0-a1cf-eeab76340c14',1,1795642685508,1795642685645,'{"v":1,"id":"01a214a4-f834-7281-aabf-3d41f4930790","status":"done","reply":"This is what I find (quotations, found by their words; without a language model I do not understand them):\n\n> My sister Ana''s birthday is 3 May.\n— `workspace/memory/items/2026-11-25-my-sister-anas-birthday-is-3-may-e77e.md:7`","session_id":"01a214a4-f7b8-76fe-b4e8-1099fc0c65ca","run_id":"01a214a4-f84c-71a0-a1cf-eeab76340c14","tokens":4065,"output_tokens":91,"cost_usd":0.0}',NULL,NULL,0);
INSERT INTO "inbox" VALUES(3,'01a214a4-f8f6-7280-9d55-d98728de6b5e','cli:cli','{"id":"01a214a4-f8f6-7280-9d55-d98728de6b5e","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"!exec echo hello","wants_reply":true,"stream":false,"received_at":1795642685700}','done','01a214a4-f909-719b-942c-f0ea389a3205',1,1795642685700,1795642685784,'{"v":1,"id":"01a214a4-f8f6-7280-9d55-d98728de6b5e","status":"done","reply":"```\nhello\n```","session_id":"01a214a4-f7b8-76fe-b4e8-1099fc0c65ca","run_id":"01a214a4-f909-719b-942c-f0ea389a3205","tokens":4232,"output_tokens":14,"cost_usd":0.0,"receipts":["ran echo hello"]}',NULL,NULL,0);
INSERT INTO "inbox" VALUES(4,'01a214a4-f97f-7762-b383-9bb1dcb7d6bd','cli:cli','{"id":"01a214a4-f97f-7762-b383-9bb1dcb7d6bd","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"","command":{"name":"job","op":"add","job":"dcb7d6bd","ask":{"name":"b","every":"2h","tz":"UTC","text":"x"}},"wants_reply":true,"stream":false,"received_at":1795642685845}','done','01a214a4-f9b8-752b-9c95-7cc9979db783',0,1795642685845,1795642685880,'{"v":1,"id":"01a214a4-f97f-7762-b383-9bb1dcb7d6bd","status":"done","reply":"Job dcb7d6bd (b): runs Wednesday, 2026-11-25 23:38 UTC, then Thursday, 2026-11-26 01:38 UTC, then Thursday, 2026-11-26 03:38 UTC.","job":{"id":"dcb7d6bd","name":"b","enabled":true,"schedule":"every 2h","tz":"UTC","next_at":"2026-11-25T23:38:05.845Z","last_at":null,"last_status":null,"text":"x","deliver":false,"to":"owner","literal":false,"session":"isolated","missed":"once","overlap":"skip","delete_after_run":false,"next_times":["2026-11-25T23:38:05.845Z","2026-11-26T01:38:05.845Z","2026-11-26T03:38:05.845Z"]}}',NULL,NULL,0);
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
INSERT INTO "seen" VALUES('cmd:01a214a4-f756-7215-a736-78a1e41b12b9',1795642685355);
INSERT INTO "seen" VALUES('cmd:01a214a4-f834-7281-aabf-3d41f4930790',1795642685508);
INSERT INTO "seen" VALUES('cmd:01a214a4-f8f6-7280-9d55-d98728de6b5e',1795642685700);
INSERT INTO "seen" VALUES('cmd:01a214a4-f97f-7762-b383-9bb1dcb7d6bd',1795642685845);
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
COMMIT;
PRAGMA user_version = 5;
