-- Where the audit trail begins, once its beginning was pruned: the number and digest of the last entry that went.
CREATE TABLE audit_start (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    digest TEXT NOT NULL
) STRICT;

DROP TRIGGER audit_is_never_deleted;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
WHEN OLD.seq > (SELECT coalesce(max(seq), 0) FROM audit_start)
BEGIN
    SELECT RAISE(ABORT, 'the audit trail is append-only');
END;
