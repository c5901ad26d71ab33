-- An INSERT of one's own `memory-injection` replaces the one that is registered by default.
CREATE TRIGGER automations_replace_default
BEFORE INSERT ON automations
WHEN NEW.script_path <> '.automations.memory_injection:MemoryInjection'
BEGIN
  DELETE FROM automations
  WHERE name = NEW.name AND kind = 'python' AND script_path = '.automations.memory_injection:MemoryInjection';
END;
