-- The sums that a reservation is checked against are read from indexes alone.
DROP INDEX costs_ts;
DROP INDEX costs_run;
CREATE INDEX costs_ts ON costs(ts, ok, cost_nano_usd);
CREATE INDEX costs_run ON costs(run_id, source, session_id, ts, cost_nano_usd);
CREATE INDEX costs_session ON costs(session_id, source, run_id, cost_nano_usd);
-- How far the limit of a day (span = its local date) or month (span = YYYY-MM) was used up, once each.
-- percent 100 = spent, or a call was refused. told_at NULL = the owner does not know it yet.
CREATE TABLE alerts(
  span TEXT NOT NULL,
  limit_nano_usd INTEGER NOT NULL,
  percent INTEGER NOT NULL CHECK(percent IN (50, 80, 100)),
  spent_nano_usd INTEGER NOT NULL,
  at INTEGER NOT NULL,
  told_at INTEGER,
  PRIMARY KEY(span, limit_nano_usd, percent)
) STRICT, WITHOUT ROWID;
