-- The newest message of a session, for an edit of it; the parts of an answer, for their trace.
CREATE INDEX inbox_session ON inbox(session_key, seq);
CREATE INDEX outbox_input ON outbox(inbox_id) WHERE inbox_id IS NOT NULL;
