-- What the calls that a grant answered amount to, where it is bound to a sum.
ALTER TABLE grants ADD COLUMN spent TEXT NOT NULL DEFAULT '0';
