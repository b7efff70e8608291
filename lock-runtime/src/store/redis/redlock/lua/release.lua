-- Releases the lock KEYS[1] of this server if the token ARGV[1] holds it: at once or, if ARGV[2] is not
-- empty, in that many milliseconds.
-- ARGV[3]  the channel that notifies the waiters; empty: none
-- Returns 1 if the token held the lock, else 0.
if holder ~= ARGV[1] then
  return 0
end
if ARGV[2] ~= '' then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[1])
if ARGV[3] ~= '' then
  redis.pcall('PUBLISH', ARGV[3], 'free') -- without permission to publish, the lock is released nevertheless
end
return 1
