-- Every key of an input we ever looked at, refused ones included; kept 14 days.
CREATE TABLE seen(
  key TEXT PRIMARY KEY,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_at ON seen(at);

-- Where the next getUpdates of a bot begins.
CREATE TABLE offsets(
  bot INTEGER PRIMARY KEY,
  next_update_id INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

-- Accepted inputs. pending → running → done | dead
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
) STRICT;
CREATE INDEX inbox_open ON inbox(seq) WHERE state IN ('pending', 'running');
CREATE INDEX inbox_results ON inbox(finished_at) WHERE result IS NOT NULL;
CREATE INDEX inbox_dead ON inbox(seq) WHERE state = 'dead';
CREATE INDEX inbox_run ON inbox(run_id) WHERE run_id IS NOT NULL;

-- Rendered parts on their way out. pending → sending → sent | unknown | dead; unknown → sending
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
) STRICT;
CREATE INDEX outbox_open ON outbox(id) WHERE state IN ('pending', 'sending', 'unknown');
CREATE INDEX outbox_dead ON outbox(id) WHERE state = 'dead';
