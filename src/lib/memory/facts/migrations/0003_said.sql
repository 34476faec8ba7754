-- When a promise was said last, milliseconds since 1970 UTC: what is said after that is another promise, also in the
-- message that settles the first.
ALTER TABLE commitments ADD COLUMN said_at INTEGER;
