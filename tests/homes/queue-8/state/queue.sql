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
, told_in TEXT, tainted INTEGER NOT NULL DEFAULT 0, wake_at INTEGER, suspended TEXT, deaths INTEGER NOT NULL DEFAULT 0, deaths_alone INTEGER NOT NULL DEFAULT 0, first_death_at INTEGER, idle INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "inbox" VALUES(1,'01a20d6e-6bf7-773b-bd9b-225f677417a4','cli:cli','{"id":"01a20d6e-6bf7-773b-bd9b-225f677417a4","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Ana''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521670308}','done','01a20d6e-6cb2-70ac-a940-74f4424330f8',1,1795521670308,1795521670592,'{"v":1,"id":"01a20d6e-6bf7-773b-bd9b-225f677417a4","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md`: “Ana''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-6cb2-70ac-a940-74f4424330f8","tokens":3119,"output_tokens":48,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-anas-dog-is-rex-mw6n.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(2,'01a20d6e-6e08-75d0-9bb6-d618f5a920dd','cli:cli','{"id":"01a20d6e-6e08-75d0-9bb6-d618f5a920dd","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Berta''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521670773}','done','01a20d6e-6e7e-7690-b10c-dcc68979e041',1,1795521670773,1795521670974,'{"v":1,"id":"01a20d6e-6e08-75d0-9bb6-d618f5a920dd","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md`: “Berta''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-6e7e-7690-b10c-dcc68979e041","tokens":3453,"output_tokens":50,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-bertas-dog-is-rex-tav7.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(3,'01a20d6e-6f99-7479-bac7-824647508f03','cli:cli','{"id":"01a20d6e-6f99-7479-bac7-824647508f03","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Carla''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521671144}','done','01a20d6e-6ff4-72ee-93a4-30f83681d645',1,1795521671144,1795521671405,'{"v":1,"id":"01a20d6e-6f99-7479-bac7-824647508f03","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md`: “Carla''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-6ff4-72ee-93a4-30f83681d645","tokens":3795,"output_tokens":50,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-carlas-dog-is-rex-u8j8.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(4,'01a20d6e-711e-71e1-890a-8250007e59f7','cli:cli','{"id":"01a20d6e-711e-71e1-890a-8250007e59f7","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Dora''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521671574}','done','01a20d6e-719f-703c-8ae6-a1b5fbc00c12',1,1795521671574,1795521671857,'{"v":1,"id":"01a20d6e-711e-71e1-890a-8250007e59f7","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md`: “Dora''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-719f-703c-8ae6-a1b5fbc00c12","tokens":4133,"output_tokens":48,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-doras-dog-is-rex-h9js.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(5,'01a20d6e-7162-77fe-9352-423a9f0b0e22','cli:cli','{"id":"01a20d6e-7162-77fe-9352-423a9f0b0e22","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Elsa''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521671574}','done','01a20d6e-72b5-73ac-be56-487de03048a7',1,1795521671574,1795521671953,'{"v":1,"id":"01a20d6e-7162-77fe-9352-423a9f0b0e22","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md`: “Elsa''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-72b5-73ac-be56-487de03048a7","tokens":4403,"output_tokens":48,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-elsas-dog-is-rex-u286.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(6,'01a20d6e-7348-7179-b7f1-852e6c23abef','cli:cli','{"id":"01a20d6e-7348-7179-b7f1-852e6c23abef","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Frida''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521672127}','done','01a20d6e-73c9-7269-9885-4753264b5fa5',1,1795521672127,1795521672400,'{"v":1,"id":"01a20d6e-7348-7179-b7f1-852e6c23abef","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md`: “Frida''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-73c9-7269-9885-4753264b5fa5","tokens":4795,"output_tokens":50,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-fridas-dog-is-rex-8c7f.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(7,'01a20d6e-737e-77fa-b1f8-2ca177cb5392','cli:cli','{"id":"01a20d6e-737e-77fa-b1f8-2ca177cb5392","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Gerda''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521672127}','done','01a20d6e-74d7-7711-ac1a-67a7c759780c',1,1795521672127,1795521672571,'{"v":1,"id":"01a20d6e-737e-77fa-b1f8-2ca177cb5392","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md`: “Gerda''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-74d7-7711-ac1a-67a7c759780c","tokens":4981,"output_tokens":50,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-gerdas-dog-is-rex-6w49.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(8,'01a20d6e-75c3-727b-b4b2-cf94f58f8da1','cli:cli','{"id":"01a20d6e-75c3-727b-b4b2-cf94f58f8da1","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Hanna''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521672749}','done','01a20d6e-763b-7207-bd3f-3be36a1253dc',1,1795521672749,1795521672991,'{"v":1,"id":"01a20d6e-75c3-727b-b4b2-cf94f58f8da1","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md`: “Hanna''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-763b-7207-bd3f-3be36a1253dc","tokens":5309,"output_tokens":50,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-hannas-dog-is-rex-7k2d.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(9,'01a20d6e-75f2-7193-83d7-5c6bca02664b','cli:cli','{"id":"01a20d6e-75f2-7193-83d7-5c6bca02664b","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Ida''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521672749}','done','01a20d6e-7732-7326-a09e-a9bac5888fd7',1,1795521672749,1795521673107,'{"v":1,"id":"01a20d6e-75f2-7193-83d7-5c6bca02664b","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md`: “Ida''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-7732-7326-a09e-a9bac5888fd7","tokens":5489,"output_tokens":48,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-idas-dog-is-rex-grbj.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(10,'01a20d6e-77be-7147-88e6-0837ee53a045','cli:cli','{"id":"01a20d6e-77be-7147-88e6-0837ee53a045","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"remember that Jana''s dog is Rex","wants_reply":true,"stream":false,"received_at":1795521673273}','done','01a20d6e-7844-76bd-9bd9-a2230fa9fea8',1,1795521673273,1795521673488,'{"v":1,"id":"01a20d6e-77be-7147-88e6-0837ee53a045","status":"done","reply":"Kept as `workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md`: “Jana''s dog is Rex.”","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-7844-76bd-9bd9-a2230fa9fea8","tokens":5871,"output_tokens":48,"cost_usd":0.0,"receipts":["kept as workspace/memory/items/2026-11-24-janas-dog-is-rex-rx8d.md"]}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
INSERT INTO "inbox" VALUES(11,'01a20d6e-794b-72d7-ae86-9d0d654995e8','cli:cli','{"id":"01a20d6e-794b-72d7-ae86-9d0d654995e8","source":"cli","sender":{"id":"cli","name":"cli"},"from_owner":true,"trust":"owner","session_key":"cli:cli","text":"hello","wants_reply":true,"stream":false,"received_at":1795521673662}','done','01a20d6e-79cc-73ed-94ed-6115eb5578b5',1,1795521673662,1795521673850,'{"v":1,"id":"01a20d6e-794b-72d7-ae86-9d0d654995e8","status":"done","reply":"Hello! No language model is configured, so I can only do simple things:\n- “remember that …” keeps a note\n- a question is answered with what stands in notes, files and ended conversations\n- “summarise: TEXT” picks the sentences that say most, also of a file that comes with it\n- `summarise FILE` does so with a file of the workspace, `!read FILE` shows it\n- `!search WORDS` shows what is found\n- `!exec COMMAND` runs a command\n\nTo give me a model: `agent-daemon login anthropic` (or openai, gemini, openrouter).","session_id":"01a20d6e-6cba-702b-9892-890479c1d0ed","run_id":"01a20d6e-79cc-73ed-94ed-6115eb5578b5","tokens":3128,"output_tokens":153,"cost_usd":0.0}',NULL,NULL,0,NULL,NULL,0,0,NULL,0);
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
, files TEXT, reaction TEXT, buttons TEXT, asks TEXT, task INTEGER) STRICT;
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
INSERT INTO "seen" VALUES('cmd:01a20d6e-6bf7-773b-bd9b-225f677417a4',1795521670308);
INSERT INTO "seen" VALUES('cmd:01a20d6e-6e08-75d0-9bb6-d618f5a920dd',1795521670773);
INSERT INTO "seen" VALUES('cmd:01a20d6e-6f99-7479-bac7-824647508f03',1795521671144);
INSERT INTO "seen" VALUES('cmd:01a20d6e-711e-71e1-890a-8250007e59f7',1795521671574);
INSERT INTO "seen" VALUES('cmd:01a20d6e-7162-77fe-9352-423a9f0b0e22',1795521671574);
INSERT INTO "seen" VALUES('cmd:01a20d6e-7348-7179-b7f1-852e6c23abef',1795521672127);
INSERT INTO "seen" VALUES('cmd:01a20d6e-737e-77fa-b1f8-2ca177cb5392',1795521672127);
INSERT INTO "seen" VALUES('cmd:01a20d6e-75c3-727b-b4b2-cf94f58f8da1',1795521672749);
INSERT INTO "seen" VALUES('cmd:01a20d6e-75f2-7193-83d7-5c6bca02664b',1795521672749);
INSERT INTO "seen" VALUES('cmd:01a20d6e-77be-7147-88e6-0837ee53a045',1795521673273);
INSERT INTO "seen" VALUES('cmd:01a20d6e-794b-72d7-ae86-9d0d654995e8',1795521673662);
CREATE TABLE shown(
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  message_id TEXT NOT NULL, inbox_id TEXT,
  PRIMARY KEY(channel, chat, message_id)
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
COMMIT;
PRAGMA user_version = 8;
