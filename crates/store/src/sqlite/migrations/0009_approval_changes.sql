-- The deadline of a question on the clock that counts from a start of the machine.
ALTER TABLE approvals ADD COLUMN deadline_boot TEXT;
ALTER TABLE approvals ADD COLUMN deadline_at INTEGER;

-- Whether the arguments of the call are still kept.
ALTER TABLE approvals ADD COLUMN has_arguments INTEGER NOT NULL DEFAULT 1;
CREATE INDEX approvals_with_arguments ON approvals (status, expires_at) WHERE has_arguments = 1 AND status <> 'pending';

-- Which approvals changed, for those who wait in other processes: they look at what came since they looked last. By triggers,
-- so that nobody who writes can forget it. Who is further behind than what is kept looks at everything.
CREATE TABLE approval_changes (
    change INTEGER PRIMARY KEY AUTOINCREMENT,
    approval TEXT NOT NULL
) STRICT;

CREATE TRIGGER approval_changed AFTER UPDATE OF status ON approvals
BEGIN
    INSERT INTO approval_changes (approval) VALUES (new.id);
END;

CREATE TRIGGER approval_deleted AFTER DELETE ON approvals
BEGIN
    INSERT INTO approval_changes (approval) VALUES (old.id);
END;

CREATE TRIGGER approval_changes_bounded AFTER INSERT ON approval_changes
BEGIN
    DELETE FROM approval_changes WHERE change <= new.change - 1024;
END;
