-- Goes on where acquire.lua ends: the lock is held, or there is a queue.

-- A free lock goes to the first in the queue, unless it is the turn of clients that do not queue.
local now = to_ms(us)
local turn = 0
if queue then
  turn = (redis.call('HGET', KEYS[3], 'turn') or now) - now
  if turn <= 0 or turn > TURN then -- over, or the clock went back
    turn = 0
    local first, first_ttl = next_in_queue(token, ' held ' .. fence, now)
    if not first or first == token then
      grant(token, ttl, fence)
      return fence
    end
    grant(first, first_ttl, fence)
    holder, last_fence = first, fence
  end
end

local free_in = holder and redis.call('PTTL', KEYS[1]) or math.min(turn, LOOK)
if pause == '' then
  leave(token, not holder and free_in)
  return {holder and string.sub(holder, 1, 64), free_in}
end

local foreign = holder and not string.find(holder, '^%x+%-%x+$')
if foreign or inbox == '' then
  pause = 100 -- nobody will send a message
end
-- By the number of its grant, were it granted now. That grows from one arrival to the next, unless the
-- clock went back.
local arrival = fence
if arrival ~= us then
  local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or 0
  arrival = math.max(fence, last + 1)
end
local joins = redis.call('ZADD', KEYS[2], 'NX', arrival, token) == 1
local rank = redis.call('ZRANK', KEYS[2], token)
pause = math.floor(pause * math.min(1 + rank / 16, 5))
local entry = now + 3 * pause .. ' ' .. ttl .. ' ' .. inbox
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
return {pause, free_in, last_fence}
