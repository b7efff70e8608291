-- Gives back the lock KEYS[1] if the token ARGV[1] holds it: at once to the first in the queue, or,
-- if ARGV[2] is not empty, to anybody in so many milliseconds. Else leaves the queue.
-- ARGV[3]  a number that the fence counter has been above; 0: none is known
-- ARGV[4]  the epoch of the server; in a cluster what it has told, empty: nothing
-- 1: it held the lock. 0: it did not.
local token, keep, seen, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if holder == token and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  if keep ~= '' then
    return redis.call('PEXPIRE', KEYS[1], keep)
  end
  return redis.call('DEL', KEYS[1])
end
