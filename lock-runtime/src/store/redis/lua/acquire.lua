-- Takes the lock KEYS[1] for the token ARGV[1] with a ttl of ARGV[2], or joins the queue. Asking again
-- is always safe: it keeps the place in the queue, and repairs what was not heard.
-- ARGV[3]  how long the first in the queue pauses before he asks again; empty: leave the queue
-- ARGV[4]  the inbox; empty: there is none
-- "fence"                      granted
-- {pause, free in, last fence} queued: when to ask again, and when the lock is free at the latest
-- {holder, free in}            busy, and not in the queue (free in -1 ms: it never expires)
-- {type}                       KEYS[1] is no lock
local token, ttl, pause, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' then
  return {redis.call('TYPE', KEYS[1])}
end
local us = time_in_us()
local fence, last_fence = next_fence(us)
if not fence then
  return redis.error_reply('FENCE ' .. KEYS[4] .. ' holds no number below 2^53')
end
local queue = not holder and redis.call('EXISTS', KEYS[2]) == 1
if holder == token or not holder and not queue then
  grant(token, ttl, fence)
  return fence
end
