-- Gives back the vote of this server: the lock KEYS[1], if the token ARGV[1] holds it. At once, or, if
-- ARGV[2] is not empty, in so many milliseconds.
-- ARGV[3]  the channel of those who wait for the lock; empty: they are not told
-- 1: it held the lock. 0: it did not.
if holder ~= ARGV[1] then
  return 0
end
if ARGV[2] ~= '' then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[1])
if ARGV[3] ~= '' then
  redis.pcall('PUBLISH', ARGV[3], 'free') -- who may not tell them has given it back all the same
end
return 1
