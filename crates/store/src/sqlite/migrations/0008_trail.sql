-- The audit trail is a log in a folder beside this file. A chain of an earlier version stays as it is.
DROP TRIGGER audit_is_never_updated;
DROP TRIGGER audit_is_never_deleted;
ALTER TABLE audit RENAME TO audit_chain;
ALTER TABLE audit_start RENAME TO audit_chain_start;
