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
INSERT INTO "inbox" VALUES(1,'01a214a4-ef05-7076-b7cf-94178e41223d','cli:cli','{"id":"01a214a4-ef05-7076-b7cf-94178e41223d","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that my sister Ana''s birthday is 3 May","wants_reply":true,"received_at":1795642683145}','done','01a214a4-ef0c-7137-a8b9-11485f70ff46',1,1795642683145,1795642683159,'{"v":1,"id":"01a214a4-ef05-7076-b7cf-94178e41223d","status":"done","reply":"Hello! No language model is configured, so I can only do simple things:\n- `!exec COMMAND` runs a command\n- `!read FILE` shows a file\n\nTo give me a model, describe it in a file in `providers.d/` and name that file in `[providers] load` of `agent.toml`.\n\nYour message arrived: “remember that my sister Ana''s birthday is 3 May”","session_id":"01a214a4-ef0d-749c-9d17-4bc75538e131","run_id":"01a214a4-ef0c-7137-a8b9-11485f70ff46","tokens":912,"cost_usd":0.0}',NULL);
INSERT INTO "inbox" VALUES(2,'01a214a4-ef2a-72e8-acc0-7045cbba6b0f','cli:cli','{"id":"01a214a4-ef2a-72e8-acc0-7045cbba6b0f","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"When is my sister Ana''s birthday?","wants_reply":true,"received_at":1795642683181}','done','01a214a4-ef31-765c-9d29-3e0fd3c861d4',1,1795642683181,1795642683193,'{"v":1,"id":"01a214a4-ef2a-72e8-acc0-7045cbba6b0f","status":"done","reply":"Hello! No language model is configured, so I can only do simple things:\n- `!exec COMMAND` runs a command\n- `!read FILE` shows a file\n\nTo give me a model, describe it in a file in `providers.d/` and name that file in `[providers] load` of `agent.toml`.\n\nYour message arrived: “When is my sister Ana''s birthday?”","session_id":"01a214a4-ef0d-749c-9d17-4bc75538e131","run_id":"01a214a4-ef31-765c-9d29-3e0fd3c861d4","tokens":1031,"cost_usd":0.0}',NULL);
INSERT INTO "inbox" VALUES(3,'01a214a4-ef4b-7153-83c0-be028a1053fe','cli:cli','{"id":"01a214a4-ef4b-7153-83c0-be028a1053fe","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"!exec echo hello","wants_reply":true,"received_at":1795642683213}','done','01a214a4-ef55-73fb-90de-4ad2af0a1ede',1,1795642683213,1795642683263,'{"v":1,"id":"01a214a4-ef4b-7153-83c0-be028a1053fe","status":"done","reply":"```\nhello\n```","session_id":"01a214a4-ef0d-749c-9d17-4bc75538e131","run_id":"01a214a4-ef55-73fb-90de-4ad2af0a1ede","tokens":2128,"cost_usd":0.0}',NULL);
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
  sent_at INTEGER,
  reason TEXT
) STRICT;
CREATE TABLE seen(
  key TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "seen" VALUES('cmd:01a214a4-ef05-7076-b7cf-94178e41223d',1795642683145);
INSERT INTO "seen" VALUES('cmd:01a214a4-ef2a-72e8-acc0-7045cbba6b0f',1795642683181);
INSERT INTO "seen" VALUES('cmd:01a214a4-ef4b-7153-83c0-be028a1053fe',1795642683213);
CREATE INDEX seen_at ON seen(at);
CREATE INDEX inbox_open ON inbox(seq) WHERE state IN ('pending', 'running');
CREATE INDEX inbox_dead ON inbox(seq) WHERE state = 'dead';
CREATE INDEX inbox_run ON inbox(run_id) WHERE run_id IS NOT NULL;
CREATE INDEX outbox_open ON outbox(id) WHERE state IN ('pending', 'sending', 'unknown');
CREATE INDEX outbox_dead ON outbox(id) WHERE state = 'dead';
COMMIT;
PRAGMA user_version = 1;
