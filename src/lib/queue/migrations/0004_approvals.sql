-- Buttons below a part (JSON, rows of them), and the batch of requests that it asks the owner about.
ALTER TABLE outbox ADD COLUMN buttons TEXT;
ALTER TABLE outbox ADD COLUMN asks TEXT;
CREATE INDEX outbox_asks ON outbox(asks) WHERE asks IS NOT NULL;

-- What the owner is asked before it is done. pending → approved → used | pending → denied | expired | withdrawn
CREATE TABLE approvals(
  id TEXT PRIMARY KEY,
  batch TEXT NOT NULL,
  session_key TEXT NOT NULL,
  session_id TEXT NOT NULL,
  inbox_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  question TEXT NOT NULL,
  why TEXT NOT NULL,
  bound TEXT NOT NULL,
  repeatable INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'pending'
    CHECK(state IN ('pending', 'approved', 'used', 'denied', 'expired', 'withdrawn')),
  answer TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  decided_at INTEGER,
  UNIQUE(inbox_id, call_id, bound)
) STRICT;
CREATE INDEX approvals_open ON approvals(created_at) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_batch ON approvals(batch);

-- The very calls that the owner allowed for the rest of a conversation.
CREATE TABLE grants(
  session_id TEXT NOT NULL,
  bound TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY(session_id, bound)
) STRICT, WITHOUT ROWID;
