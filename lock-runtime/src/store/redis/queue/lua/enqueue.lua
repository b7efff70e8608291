-- Continues acquire.lua: the lock is held, or there is a queue.

-- A free lock goes to the first waiter, unless it is left free for clients that do not queue.
local now = time_in_ms()
local turn = 0
if queue then
  turn = (redis.call('HGET', KEYS[3], 'turn') or now) - now
  if turn <= 0 or turn > TURN then -- the turn is over, or the clock went back
    turn = 0
    local first, first_ttl, first_inbox = pop_live_waiter(token, now)
    if not first or first == token then
      grant(token, ttl)
      return report and {fence, report} or fence
    end
    grant(first, first_ttl)
    notify(first, first_inbox, string.format(' held %.0f', fence))
    holder = first
  end
end

local free_in = holder and redis.call('PTTL', KEYS[1]) or math.min(turn, TURN_POLL)
if poll_in == '' then
  leave(token, not holder and free_in)
  return {holder and string.sub(holder, 1, 64), free_in}
end

local foreign = holder and not string.find(holder, '^%x+%-%x+$')
if foreign or inbox == '' then
  poll_in = 100 -- no message will announce the release
end
-- Fence numbers order the waiters by arrival.
local joins = redis.call('ZADD', KEYS[2], 'NX', fence, token) == 1
local rank = redis.call('ZRANK', KEYS[2], token)
poll_in = math.floor(poll_in * math.min(1 + rank / 16, 5))
local entry = now + 3 * poll_in .. ' ' .. ttl .. ' ' .. inbox
local written = redis.pcall('HSET', KEYS[3], token, entry)
if type(written) == 'table' then
  redis.call('ZREM', KEYS[2], token)
  return written
end
if foreign then
  redis.call('HSET', KEYS[3], 'others', now + 10000)
end
if not joins or rank == 0 then
  keep_queue()
end
return {poll_in, free_in, fence}
