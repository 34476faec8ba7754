BEGIN TRANSACTION;
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
INSERT INTO "costs" VALUES(1795642683152,'01a214a4-ef10-7274-bc88-ebecf7b8ba6a','01a214a4-ef0c-7137-a8b9-11485f70ff46','01a214a4-ef0d-749c-9d17-4bc75538e131','cli','offline','offline','chat',814,98,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683188,'01a214a4-ef34-72df-8591-a6a53dbe74b7','01a214a4-ef31-765c-9d29-3e0fd3c861d4','01a214a4-ef0d-749c-9d17-4bc75538e131','cli','offline','offline','chat',938,93,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683225,'01a214a4-ef59-75a9-b230-6fa4792d2952','01a214a4-ef55-73fb-90de-4ad2af0a1ede','01a214a4-ef0d-749c-9d17-4bc75538e131','cli','offline','offline','chat',1052,10,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683255,'01a214a4-ef77-73c3-b16c-68912a6b82a0','01a214a4-ef55-73fb-90de-4ad2af0a1ede','01a214a4-ef0d-749c-9d17-4bc75538e131','cli','offline','offline','chat',1062,4,0,0,0,0,1,1);
CREATE INDEX costs_ts ON costs(ts);
CREATE INDEX costs_run ON costs(run_id);
COMMIT;
PRAGMA user_version = 1;
