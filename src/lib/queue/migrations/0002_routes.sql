-- Where the people of a session were last heard: the way back to them.
CREATE TABLE routes(
  session_key TEXT PRIMARY KEY,
  sender TEXT NOT NULL,
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
