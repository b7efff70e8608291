-- Takes the lock KEYS[1] for the token ARGV[1] with a ttl of ARGV[2], or joins the queue. Asking again
-- is always safe: it keeps the place in the queue, and repairs what was not heard.
-- ARGV[3]  how long the first in the queue pauses before he asks again; empty: leave the queue
-- ARGV[4]  the inbox; empty: there is none
-- ARGV[5]  a number that the fence counter has been above; 0: none is known
-- ARGV[6]  the epoch of the server; in a cluster what it has told, empty: nothing
-- fence                   granted
-- {fence, told}           the same, and "<epoch> <time in microseconds>"
-- {pause, free in, fence} queued: when to ask again, when the lock is free at the latest, and a
--                         number that all grants up to now are not above
-- {holder, free in}       busy, and not in the queue (free in -1 ms: it never expires)
-- {type}                  KEYS[1] is no lock
local token, ttl, pause, inbox, seen, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if type(holder) == 'table' then
  return {redis.call('TYPE', KEYS[1])}
end
local queue = not holder and redis.call('EXISTS', KEYS[2]) == 1
local fence, failure, told
if holder == token or not holder or pause ~= '' then
  fence, failure, told = next_fence(seen, epoch)
  if not fence then
    return failure
  end
end
if holder == token or not holder and not queue then
  grant(token, ttl)
  return told and {fence, told} or fence
end
