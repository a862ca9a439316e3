-- Earlier versions wiped the arguments of questions that were over, and left what was said of them: each is looked at once more.
UPDATE approvals SET has_arguments = 1 WHERE status <> 'pending';
