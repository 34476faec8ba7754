-- What a command says, as a digest: the same id with another digest is another command.
ALTER TABLE seen ADD COLUMN digest TEXT;
CREATE INDEX seen_digest ON seen(digest, at) WHERE digest IS NOT NULL;
