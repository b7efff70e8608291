-- Confirms a vote: if the token ARGV[1] still holds the lock KEYS[1], no later grant of it gets a fence
-- number up to ARGV[2].
-- KEYS[2]  the last fence number
-- 1: it does hold it. 0: it does not.
--
-- The counter belongs to all locks of this server, so it says nothing about the order of two holders of
-- one lock. That the token holds the lock does: whoever was confirmed here before the token took the lock
-- has left his fence in the counter, and the token's number is above it; whoever takes the lock after this
-- finds ARGV[2] there. Any two majorities have a server in common, hence any two holders such an order.
if holder ~= ARGV[1] then
  return 0
end
local last = redis.call('GET', KEYS[2])
if not last or tonumber(last) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2])
end
return 1
