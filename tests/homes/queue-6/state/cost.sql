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
INSERT INTO "costs" VALUES(1795515987277,'01a20d17-b54d-7329-9f6c-8f8344619e06','01a20d17-b53d-74f3-ba78-3c99d297e585','01a20d17-b53f-7603-9047-781552c31c45','cli','offline','offline','chat',1849,26,0,0,0,20,1,1);
INSERT INTO "costs" VALUES(1795515987317,'01a20d17-b575-7407-9718-cbf459de1677','01a20d17-b53d-74f3-ba78-3c99d297e585','01a20d17-b53f-7603-9047-781552c31c45','cli','offline','offline','chat',1896,37,0,0,0,0,1,1);
CREATE INDEX costs_ts ON costs(ts, ok, cost_nano_usd);
CREATE INDEX costs_run ON costs(run_id, source, session_id, ts, cost_nano_usd);
CREATE INDEX costs_session ON costs(session_id, source, run_id, cost_nano_usd);
COMMIT;
PRAGMA user_version = 2;
