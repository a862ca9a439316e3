-- What the plugin that queued an injection says of it, as JSON; NULL where it says nothing.
ALTER TABLE injections ADD COLUMN metadata TEXT;
