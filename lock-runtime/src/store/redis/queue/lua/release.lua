-- Releases the lock KEYS[1] if the token ARGV[1] holds it: hands it over to the first waiter at once, or,
-- if ARGV[2] is not empty, frees it in that many milliseconds. Otherwise leaves the queue.
-- ARGV[3]  the greatest fence number that the client has seen on this connection; 0: none
-- ARGV[4]  the epoch of the server; in a cluster its last report, empty: none
-- Returns 1 if the token held the lock, else 0.
local token, keep, seen, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if holder == token and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  if keep ~= '' then
    return redis.call('PEXPIRE', KEYS[1], keep)
  end
  return redis.call('DEL', KEYS[1])
end
