-- Every paid call: a row at its reservation before the call, settled after it.
-- cost_nano_usd NULL = unpriced; ok NULL = not settled (in flight, or lost in a crash).
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
CREATE INDEX costs_ts ON costs(ts);
CREATE INDEX costs_run ON costs(run_id);
