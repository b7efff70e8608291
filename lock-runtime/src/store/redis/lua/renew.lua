-- Lets the lock KEYS[1] live for ARGV[2] milliseconds from now if the token ARGV[1] holds it.
-- 1: it does. 0: it does not.
if holder ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
