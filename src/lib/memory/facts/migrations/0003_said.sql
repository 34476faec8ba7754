-- When a promise was said last, milliseconds since 1970 UTC: what is said after that is promised anew, also in the message
-- that settles the one before.
ALTER TABLE commitments ADD COLUMN said_at INTEGER;
