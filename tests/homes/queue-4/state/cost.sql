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
INSERT INTO "costs" VALUES(1795642684447,'01a214a4-f41f-7470-9321-aa2a8fb80048','01a214a4-f401-7145-80da-13112dae9675','01a214a4-f405-76fb-be97-6c6b11d01588','cli','offline','offline','chat',1833,26,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642684516,'01a214a4-f464-7284-806b-29b04743fb5d','01a214a4-f401-7145-80da-13112dae9675','01a214a4-f405-76fb-be97-6c6b11d01588','cli','offline','offline','chat',1880,37,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642684589,'01a214a4-f4ad-779d-acd6-de3da01ae693','01a214a4-f4a1-76d2-b8cf-be3c9cbea329','01a214a4-f405-76fb-be97-6c6b11d01588','cli','offline','offline','chat',2003,23,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642684612,'01a214a4-f4c4-730a-bdd4-aff742348164','01a214a4-f4a1-76d2-b8cf-be3c9cbea329','01a214a4-f405-76fb-be97-6c6b11d01588','cli','offline','offline','chat',2059,68,0,0,0,1,1,1);
INSERT INTO "costs" VALUES(1795642684689,'01a214a4-f511-7084-a3ba-fbe17189bafd','01a214a4-f4fd-7419-b6a5-ebb41cf5a01c','01a214a4-f405-76fb-be97-6c6b11d01588','cli','offline','offline','chat',2148,10,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642684725,'01a214a4-f534-727e-b9ab-23e802a2c52c','01a214a4-f4fd-7419-b6a5-ebb41cf5a01c','01a214a4-f405-76fb-be97-6c6b11d01588','cli','offline','offline','chat',2158,4,0,0,0,0,1,1);
CREATE INDEX costs_ts ON costs(ts);
CREATE INDEX costs_run ON costs(run_id);
COMMIT;
PRAGMA user_version = 1;
