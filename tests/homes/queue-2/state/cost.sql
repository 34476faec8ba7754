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
INSERT INTO "costs" VALUES(1795642683685,'01a214a4-f125-77c5-8391-e3fc0c5b765d','01a214a4-f100-739d-8abf-85182f9e6e0d','01a214a4-f101-7339-8042-cb651671984c','cli','offline','offline','chat',1370,26,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683752,'01a214a4-f168-737a-8d0f-20ada9293e67','01a214a4-f100-739d-8abf-85182f9e6e0d','01a214a4-f101-7339-8042-cb651671984c','cli','offline','offline','chat',1417,37,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683821,'01a214a4-f1ad-748e-b06a-e2907b42f0e3','01a214a4-f19c-758c-b6f9-e82910aa21e8','01a214a4-f101-7339-8042-cb651671984c','cli','offline','offline','chat',1540,23,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683847,'01a214a4-f1c7-74cd-bd39-99a2bcd70610','01a214a4-f19c-758c-b6f9-e82910aa21e8','01a214a4-f101-7339-8042-cb651671984c','cli','offline','offline','chat',1596,68,0,0,0,1,1,1);
INSERT INTO "costs" VALUES(1795642683909,'01a214a4-f205-7116-8843-5792fa5c256c','01a214a4-f1f4-7381-a371-d93cf14726c0','01a214a4-f101-7339-8042-cb651671984c','cli','offline','offline','chat',1685,10,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642683948,'01a214a4-f22c-774d-a2ec-d2f1b02d32d4','01a214a4-f1f4-7381-a371-d93cf14726c0','01a214a4-f101-7339-8042-cb651671984c','cli','offline','offline','chat',1695,4,0,0,0,0,1,1);
CREATE INDEX costs_ts ON costs(ts);
CREATE INDEX costs_run ON costs(run_id);
COMMIT;
PRAGMA user_version = 1;
