-- A turn that is suspended: when it goes on by itself (milliseconds since 1970 UTC), and since when and for what (JSON).
ALTER TABLE inbox ADD COLUMN wake_at INTEGER;
ALTER TABLE inbox ADD COLUMN suspended TEXT;
-- How often its turn died with the daemon, how often as the only one, and when for the first time.
ALTER TABLE inbox ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN deaths_alone INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox ADD COLUMN first_death_at INTEGER;
-- Whether its running turn only waits for somebody: then it is not what a daemon dies of.
ALTER TABLE inbox ADD COLUMN idle INTEGER NOT NULL DEFAULT 0;
-- The input that a message is shown for; it stays while that is suspended.
ALTER TABLE shown ADD COLUMN inbox_id TEXT;
