-- What a session heard and did not answer: the next turn reads it. At most 50 a session.
CREATE TABLE notes(
  id INTEGER PRIMARY KEY,
  session_key TEXT NOT NULL,
  at INTEGER NOT NULL,
  note TEXT NOT NULL
) STRICT;
CREATE INDEX notes_session ON notes(session_key, id);

-- Messages that are shown while a turn runs, to be removed again.
CREATE TABLE shown(
  channel TEXT NOT NULL,
  chat TEXT NOT NULL,
  topic TEXT,
  message_id TEXT NOT NULL,
  PRIMARY KEY(channel, chat, message_id)
) STRICT, WITHOUT ROWID;

-- Files of a part (JSON), and an emoji that is put on a message instead of one.
ALTER TABLE outbox ADD COLUMN files TEXT;
ALTER TABLE outbox ADD COLUMN reaction TEXT;
