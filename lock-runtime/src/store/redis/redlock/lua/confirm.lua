-- Confirms a vote: if the token ARGV[1] still holds the lock KEYS[1], every later grant of the lock gets a
-- fence number above ARGV[2].
-- KEYS[2]  the fence counter
-- Returns 1 if the token holds the lock, else 0.
--
-- The counter belongs to all locks of this server, so it does not order two holders of one lock. The key
-- does: a holder that was confirmed here before the token took the lock has left its fence in the counter,
-- and the token's number is above it; a client that takes the lock after this finds ARGV[2] there. Any two
-- majorities share a server, so any two holders are ordered.
if holder ~= ARGV[1] then
  return 0
end
local last = redis.call('GET', KEYS[2])
if not last or tonumber(last) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
end
return 1
