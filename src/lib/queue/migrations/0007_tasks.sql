-- Tasks of plans, a graph a run. blocked → ready (due_at) → done | dead | cancelled
CREATE TABLE tasks(
  seq INTEGER PRIMARY KEY,
  session_key TEXT NOT NULL,
  inbox_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  depends_on TEXT NOT NULL,
  lead_ms INTEGER NOT NULL,
  task TEXT NOT NULL,
  answer TEXT NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('blocked', 'ready', 'done', 'dead', 'cancelled')),
  due_at INTEGER,
  retries INTEGER NOT NULL DEFAULT 0,
  reason TEXT,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  UNIQUE(run_id, id)
) STRICT;
CREATE INDEX tasks_ready ON tasks(due_at) WHERE state = 'ready';
CREATE INDEX tasks_open ON tasks(session_key) WHERE state IN ('blocked', 'ready');
CREATE INDEX tasks_session ON tasks(session_key, seq);

-- The task that a part belongs to.
ALTER TABLE outbox ADD COLUMN task INTEGER;
CREATE INDEX outbox_task ON outbox(task) WHERE task IS NOT NULL;
