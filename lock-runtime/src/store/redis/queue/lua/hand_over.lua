-- Continues release.lua: the token does not hold the lock, or there may be waiters.

if holder ~= token then
  leave(token, not holder and 0)
  return 0
end

local now = time_in_ms()
if keep ~= '' then
  redis.call('PEXPIRE', KEYS[1], keep)
  announce(keep, now)
  return 1
end

-- Clients that do not queue find the lock free only if it is left free for them now and then: after every
-- five seconds of continuous hand-overs, and after every second while such clients are around.
local times = redis.pcall('HMGET', KEYS[3], 'since', 'others')
local since, others = tonumber(times[1]), tonumber(times[2]) or 0
local continuous = since and now - since or 0
if continuous >= (others > now and 1000 or 5000) and redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('DEL', KEYS[1]) -- first, because a server without memory refuses `HSET`
  redis.call('HSET', KEYS[3], 'since', now + TURN, 'turn', now + TURN)
  announce(TURN_POLL, now)
  return 1
end

local fence = next_fence(seen, epoch)
local first, first_ttl, first_inbox
if fence then
  first, first_ttl, first_inbox = pop_live_waiter(nil, now)
end
if not first then
  redis.pcall('HDEL', KEYS[3], 'since', 'others', 'turn')
  return redis.call('DEL', KEYS[1])
end
grant(first, first_ttl)
notify(first, first_inbox, string.format(' held %.0f', fence))
if not since or since > now then
  redis.pcall('HSET', KEYS[3], 'since', now)
  keep_queue() -- the hash and its expiry may have gone with the last waiter
end
return 1
