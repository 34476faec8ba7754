PRAGMA foreign_keys=OFF;
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
INSERT INTO costs VALUES(1795656812165,'01a2157c-8685-75be-8cf9-730c37b571a3','01a2157c-8670-77be-9d4d-10fb21f648a2','01a2157c-8671-7323-a1fd-6d1ec2941a47','cli','offline','offline','chat',1290,24,0,0,0,9,1,1);
INSERT INTO costs VALUES(1795656812192,'01a2157c-86a0-71df-8b7a-758c1cc0c5cc','01a2157c-8670-77be-9d4d-10fb21f648a2','01a2157c-8671-7323-a1fd-6d1ec2941a47','cli','offline','offline','chat',1333,32,0,0,0,0,1,1);
INSERT INTO costs VALUES(1795656812221,'01a2157c-86bd-7168-a9a5-88094c3b254d','01a2157c-86b6-72e0-bb82-4355f9bef73e','01a2157c-8671-7323-a1fd-6d1ec2941a47','cli','offline','offline','chat',1474,21,0,0,0,0,1,1);
INSERT INTO costs VALUES(1795656812231,'01a2157c-86c7-763b-99b0-deab46a9fa58','01a2157c-86b6-72e0-bb82-4355f9bef73e','01a2157c-8671-7323-a1fd-6d1ec2941a47','cli','offline','offline','chat',1544,63,0,0,0,0,1,1);
CREATE TABLE alerts(
  span TEXT NOT NULL,
  limit_nano_usd INTEGER NOT NULL,
  percent INTEGER NOT NULL CHECK(percent IN (50, 80, 100)),
  spent_nano_usd INTEGER NOT NULL,
  at INTEGER NOT NULL,
  told_at INTEGER,
  PRIMARY KEY(span, limit_nano_usd, percent)
) STRICT, WITHOUT ROWID;
CREATE INDEX costs_ts ON costs(ts, ok, cost_nano_usd);
CREATE INDEX costs_run ON costs(run_id, source, session_id, ts, cost_nano_usd);
CREATE INDEX costs_session ON costs(session_id, source, run_id, cost_nano_usd);
CREATE VIEW costs_usd AS
SELECT ts / 1000 AS timestamp, session_id, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
  cost_nano_usd / 1e9 AS cost_usd
FROM costs;
COMMIT;
PRAGMA user_version = 3;
