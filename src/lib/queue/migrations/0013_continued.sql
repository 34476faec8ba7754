-- Conversations that were taken up in another place: what is said in `place` belongs to `session_key`.
CREATE TABLE continued(
  place TEXT PRIMARY KEY,
  session_key TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
