BEGIN TRANSACTION;
CREATE TABLE alerts(
  span TEXT NOT NULL,
  limit_nano_usd INTEGER NOT NULL,
  percent INTEGER NOT NULL CHECK(percent IN (50, 80, 100)),
  spent_nano_usd INTEGER NOT NULL,
  at INTEGER NOT NULL,
  told_at INTEGER,
  PRIMARY KEY(span, limit_nano_usd, percent)
) STRICT, WITHOUT ROWID;
CREATE TABLE costs(
  ts INTEGER NOT NULL,
  call_id TEXT PRIMARY KEY,
  run_id TEXT,
  session_id TEXT,
  source TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN ('chat', 'embedding', 'stt', 'tts', 'image')),
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  cost_nano_usd INTEGER,
  latency_ms INTEGER,
  ok INTEGER,
  estimated INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO "costs" VALUES(1795521670414,'01a20d6e-6d0e-74ce-a4ea-59b0d33af27b','01a20d6e-6cb2-70ac-a940-74f4424330f8','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',1517,21,0,0,0,58,1,1);
INSERT INTO "costs" VALUES(1795521670578,'01a20d6e-6db2-762b-b05b-00778144e79d','01a20d6e-6cb2-70ac-a940-74f4424330f8','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',1554,27,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521670851,'01a20d6e-6ec3-707e-97ca-539477f3b94c','01a20d6e-6e7e-7690-b10c-dcc68979e041','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',1682,22,0,0,0,51,1,1);
INSERT INTO "costs" VALUES(1795521670951,'01a20d6e-6f26-7500-b112-c76fb1a9adfb','01a20d6e-6e7e-7690-b10c-dcc68979e041','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',1721,28,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521671271,'01a20d6e-7067-7235-ade0-929a84a49a6a','01a20d6e-6ff4-72ee-93a4-30f83681d645','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',1853,22,0,0,0,44,1,1);
INSERT INTO "costs" VALUES(1795521671377,'01a20d6e-70d1-700e-9772-c06672712c0d','01a20d6e-6ff4-72ee-93a4-30f83681d645','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',1892,28,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521671708,'01a20d6e-721c-703b-8b7d-c8dc5001feff','01a20d6e-719f-703c-8ae6-a1b5fbc00c12','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2024,21,0,0,0,47,1,1);
INSERT INTO "costs" VALUES(1795521671837,'01a20d6e-729d-7466-b789-67b5bf324eec','01a20d6e-719f-703c-8ae6-a1b5fbc00c12','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2061,27,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521671886,'01a20d6e-72ce-7398-a455-016e1c4c9781','01a20d6e-72b5-73ac-be56-487de03048a7','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2159,21,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521671937,'01a20d6e-7301-749d-802c-aa34e925d96b','01a20d6e-72b5-73ac-be56-487de03048a7','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2196,27,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521672267,'01a20d6e-744b-76a2-a420-de697b5afa80','01a20d6e-73c9-7269-9885-4753264b5fa5','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2353,22,0,0,0,52,1,1);
INSERT INTO "costs" VALUES(1795521672380,'01a20d6e-74bc-7453-a292-d21f0a4be6f1','01a20d6e-73c9-7269-9885-4753264b5fa5','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2392,28,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521672445,'01a20d6e-74fd-773b-af89-00f7891caeb8','01a20d6e-74d7-7711-ac1a-67a7c759780c','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2446,22,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521672549,'01a20d6e-7565-7783-ad6d-a94866452f58','01a20d6e-74d7-7711-ac1a-67a7c759780c','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2485,28,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521672875,'01a20d6e-76ab-758b-9e3c-fe40c1bf7141','01a20d6e-763b-7207-bd3f-3be36a1253dc','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2610,22,0,0,0,53,1,1);
INSERT INTO "costs" VALUES(1795521672976,'01a20d6e-7710-7740-96b3-6e4cb9c76480','01a20d6e-763b-7207-bd3f-3be36a1253dc','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2649,28,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521673054,'01a20d6e-775e-76f2-a958-1b5046111d4c','01a20d6e-7732-7326-a09e-a9bac5888fd7','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2702,21,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521673087,'01a20d6e-777f-7286-9d0f-403d1cfee6ed','01a20d6e-7732-7326-a09e-a9bac5888fd7','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2739,27,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521673381,'01a20d6e-78a5-70eb-a248-015fd9df0413','01a20d6e-7844-76bd-9bd9-a2230fa9fea8','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2893,21,0,0,0,41,1,1);
INSERT INTO "costs" VALUES(1795521673463,'01a20d6e-78f7-77cd-a7c6-1a9b07817d98','01a20d6e-7844-76bd-9bd9-a2230fa9fea8','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2930,27,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795521673779,'01a20d6e-7a33-7149-9bb4-aacd81771e47','01a20d6e-79cc-73ed-94ed-6115eb5578b5','01a20d6e-6cba-702b-9892-890479c1d0ed','cli','offline','offline','chat',2975,153,0,0,0,41,1,1);
CREATE INDEX costs_ts ON costs(ts, ok, cost_nano_usd);
CREATE INDEX costs_run ON costs(run_id, source, session_id, ts, cost_nano_usd);
CREATE INDEX costs_session ON costs(session_id, source, run_id, cost_nano_usd);
CREATE VIEW costs_usd AS
SELECT ts / 1000 AS timestamp, session_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
  cost_nano_usd / 1e9 AS cost_usd
FROM costs;
COMMIT;
PRAGMA user_version = 3;
