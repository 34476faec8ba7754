-- What may be allowed at one go: in words, and the digest that calls under it share.
ALTER TABLE approvals ADD COLUMN rule TEXT;
ALTER TABLE approvals ADD COLUMN rule_bound TEXT;
