-- Extends the lock KEYS[1] to ARGV[2] milliseconds from now if the token ARGV[1] holds it.
-- Returns 1 if the token holds the lock, else 0.
if holder ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
