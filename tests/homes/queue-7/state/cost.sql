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
INSERT INTO "costs" VALUES(1795520210194,'01a20d58-2512-75f1-93d3-fcd164664891','01a20d58-24f1-749f-b28c-67b5664819c1','01a20d58-24f9-7015-8bb8-f5bd663fa11f','cli','offline','offline','chat',1902,25,0,0,0,23,1,1);
INSERT INTO "costs" VALUES(1795520210341,'01a20d58-25a5-744d-9173-5ec860a066bb','01a20d58-24f1-749f-b28c-67b5664819c1','01a20d58-24f9-7015-8bb8-f5bd663fa11f','cli','offline','offline','chat',1947,34,0,0,0,0,1,1);
CREATE INDEX costs_ts ON costs(ts, ok, cost_nano_usd);
CREATE INDEX costs_run ON costs(run_id, source, session_id, ts, cost_nano_usd);
CREATE INDEX costs_session ON costs(session_id, source, run_id, cost_nano_usd);
COMMIT;
PRAGMA user_version = 2;
