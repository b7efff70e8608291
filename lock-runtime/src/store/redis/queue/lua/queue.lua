-- The queue of the lock KEYS[1].
-- KEYS[2]  the tokens of the waiters, in order of arrival
-- KEYS[3]  for each of them "<alive until> <ttl> <inbox>"; also the turns of clients that do not queue
-- Times and durations are in milliseconds.

local KEEP_QUEUE = 60000 -- many times the longest poll interval
local TURN = 100 -- how long the lock is left free for clients that do not queue
local TURN_POLL = 10 -- the poll interval of the first waiter in that time

local function time_in_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Whether a client of this server listens on the inbox. `PUBSUB NUMSUB` counts local subscribers only.
-- The result of `PUBLISH` says nothing: the message is replicated, and a demoted master delivers it to
-- clients that this server does not know. Without permission for `PUBSUB`, the waiter counts as reachable.
local function is_reachable(inbox)
  if inbox == '' then
    return true
  end
  local counts = redis.pcall('PUBSUB', 'NUMSUB', inbox)
  return counts.err ~= nil or counts[2] > 0
end

-- Removes dead waiters from the head of the queue, then the first live waiter, and returns its token,
-- ttl, inbox, score and entry. The caller is alive. Any other waiter is alive if it has polled recently
-- and its inbox is reachable.
local function pop_live_waiter(caller, now)
  while true do
    -- With `pcall`, because a helper key that holds something else must not keep a lock taken.
    local first = redis.pcall('ZPOPMIN', KEYS[2])
    local token, arrival = first[1], first[2]
    if not token then
      return
    end
    local entry = redis.pcall('HGET', KEYS[3], token)
    redis.pcall('HDEL', KEYS[3], token)
    if token == caller then
      return token
    end
    entry = type(entry) == 'string' and entry or ''
    local alive_until, ttl, inbox = string.match(entry, '^(%d+) (%d+) (.*)$')
    if alive_until and tonumber(alive_until) > now and is_reachable(inbox) then
      return token, ttl, inbox, arrival, entry
    end
  end
end

-- Sends a message to a waiter. A message about a grant follows the `SET` of its token, because only the
-- key proves a grant.
local function notify(token, inbox, message)
  if inbox ~= '' then
    redis.pcall('PUBLISH', inbox, token .. message)
  end
end

local function keep_queue()
  redis.call('PEXPIRE', KEYS[2], KEEP_QUEUE)
  redis.call('PEXPIRE', KEYS[3], KEEP_QUEUE)
end

-- Notifies the first waiter that the lock is free in `ms`.
local function announce(ms, now)
  local token, _, inbox, arrival, entry = pop_live_waiter(nil, now)
  if token then
    notify(token, inbox, string.format(' free %d', ms))
    redis.call('ZADD', KEYS[2], arrival, token)
    redis.call('HSET', KEYS[3], token, entry)
    keep_queue()
  end
end

-- Leaves the queue. If the lock is free in `ms`, notifies the next waiter.
local function leave(token, ms)
  if redis.pcall('ZREM', KEYS[2], token) == 1 then
    redis.pcall('HDEL', KEYS[3], token)
    if ms then
      announce(ms, time_in_ms())
    end
  end
end
