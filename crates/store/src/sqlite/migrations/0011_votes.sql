-- What each person answered, where it is said who may answer: one row for each, whatever they answer with.
CREATE TABLE approval_votes (
    row INTEGER PRIMARY KEY,
    approval TEXT NOT NULL,
    person TEXT NOT NULL,
    vote TEXT NOT NULL,
    UNIQUE (approval, person)
) STRICT;

-- Pages that show a question hear of each vote.
CREATE TRIGGER approval_voted AFTER INSERT ON approval_votes
BEGIN
    INSERT INTO approval_changes (approval) VALUES (new.approval);
END;

CREATE TRIGGER approval_voted_anew AFTER UPDATE ON approval_votes
BEGIN
    INSERT INTO approval_changes (approval) VALUES (new.approval);
END;

CREATE TRIGGER approval_votes_deleted AFTER DELETE ON approvals
BEGIN
    DELETE FROM approval_votes WHERE approval = old.id;
END;

-- How much each agent asks. Earlier questions are nobody's.
ALTER TABLE approvals ADD COLUMN agent TEXT;
ALTER TABLE approvals ADD COLUMN created_at INTEGER;
CREATE INDEX approvals_by_agent ON approvals (agent, created_at);
CREATE INDEX approvals_waiting ON approvals (agent, expires_at) WHERE status = 'pending';
CREATE INDEX approvals_unattended ON approvals (agent, expires_at) WHERE status = 'unattended';

-- Questions that nobody was asked, because their agent asks too much.
CREATE TABLE approval_refusals (
    agent TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    since INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;
