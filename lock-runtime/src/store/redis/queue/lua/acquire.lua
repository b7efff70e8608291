-- Takes the lock KEYS[1] for the token ARGV[1] with a ttl of ARGV[2], or joins the queue. A repeated call
-- is always safe: it keeps the place in the queue, and makes up for lost messages.
-- ARGV[3]  the poll interval of the first waiter; empty: leave the queue
-- ARGV[4]  the inbox; empty: none
-- ARGV[5]  the greatest fence number that the client has seen on this connection; 0: none
-- ARGV[6]  the epoch of the server; in a cluster its last report, empty: none
-- Returns
-- fence                     granted
-- {fence, report}           the same, with "<epoch> <time in microseconds>"
-- {poll in, free in, fence} queued: when to poll, when the lock is free at the latest, and a number that
--                           no grant so far exceeds
-- {holder, free in}         busy, and not in the queue (free in -1 ms: the key never expires)
-- {type}                    KEYS[1] is not a lock
local token, ttl, poll_in, inbox, seen, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if type(holder) == 'table' then
  return {redis.call('TYPE', KEYS[1])}
end
local queue = not holder and redis.call('EXISTS', KEYS[2]) == 1
local fence, failure, report
if holder == token or not holder or poll_in ~= '' then
  fence, failure, report = next_fence(seen, epoch)
  if not fence then
    return failure
  end
end
if holder == token or not holder and not queue then
  grant(token, ttl)
  return report and {fence, report} or fence
end
