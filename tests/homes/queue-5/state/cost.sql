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
INSERT INTO "costs" VALUES(1795642685409,'01a214a4-f7e1-7497-9619-50aec231ab33','01a214a4-f7b0-744e-8bf2-b6d5a681d398','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca','cli','offline','offline','chat',1849,26,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642685444,'01a214a4-f804-7133-aa6a-c704cdb182d4','01a214a4-f7b0-744e-8bf2-b6d5a681d398','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca','cli','offline','offline','chat',1896,37,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642685561,'01a214a4-f879-7203-a7ec-ec5d16dc91bd','01a214a4-f84c-71a0-a1cf-eeab76340c14','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca','cli','offline','offline','chat',1959,23,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642685631,'01a214a4-f8bf-70cf-9864-b82358eb574c','01a214a4-f84c-71a0-a1cf-eeab76340c14','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca','cli','offline','offline','chat',2015,68,0,0,0,1,1,1);
INSERT INTO "costs" VALUES(1795642685717,'01a214a4-f915-75f2-9108-480efaf7c6b5','01a214a4-f909-719b-942c-f0ea389a3205','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca','cli','offline','offline','chat',2104,10,0,0,0,0,1,1);
INSERT INTO "costs" VALUES(1795642685760,'01a214a4-f940-73ef-b219-216f01fa43f3','01a214a4-f909-719b-942c-f0ea389a3205','01a214a4-f7b8-76fe-b4e8-1099fc0c65ca','cli','offline','offline','chat',2114,4,0,0,0,0,1,1);
CREATE INDEX costs_ts ON costs(ts, ok, cost_nano_usd);
CREATE INDEX costs_run ON costs(run_id, source, session_id, ts, cost_nano_usd);
CREATE INDEX costs_session ON costs(session_id, source, run_id, cost_nano_usd);
COMMIT;
PRAGMA user_version = 2;
