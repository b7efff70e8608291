-- Releases the lock KEYS[1] if the token ARGV[1] holds it: at once, or in ARGV[2] milliseconds.
-- 1: it did. 0: it did not.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] ~= '' then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.call('DEL', KEYS[1])
