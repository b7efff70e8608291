-- How the lock KEYS[1] is granted.
-- KEYS[#KEYS]  the last fence number, shared by all locks

local DAY = 86400000000 -- in microseconds, as all times here
local BELIEVED = 100000

local function time_in_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The epoch of this server of a cluster, which only the server knows; or none and the error. `before`
-- is what the client was told, "<epoch> <time>", or empty. That is believed for a tenth of a second,
-- because asking takes longer than all else here: no server gives way to another one, which grants and
-- dies, and is elected again, in so short a time. Else the second result is what to tell now.
local function epoch_in_cluster(before, now)
  local epoch, at = string.match(before, '^(%d+) (%d+)$')
  if epoch and now - at >= 0 and now - at < BELIEVED then
    return epoch
  end
  local info = redis.pcall('CLUSTER', 'INFO')
  if type(info) == 'table' then
    return nil, info
  end
  epoch = string.match(info, 'cluster_my_epoch:(%d+)')
  return epoch, string.format('%s %.0f', epoch, now)
end

-- The next fence number, one more than the last, or none and the error. If it is not greater than
-- `seen`, which the counter has been above since the client is connected, or if that is not known (0),
-- the counter may have lost some. Then the number is at least the time, which each epoch of the server,
-- that is each failover, puts forward by a day: while the clock does not go back by more, no number was
-- as great before. In a cluster, `epoch` is what the client was told of it, and the third result what
-- to tell now.
local function next_fence(seen, epoch)
  local fence = redis.pcall('INCR', KEYS[#KEYS])
  local failure = type(fence) == 'table' and fence.err
  if failure and not string.find(failure, 'integer') and not string.find(failure, 'overflow') then
    return nil, fence
  elseif failure or fence >= 2 ^ 53 then -- what follows is not exact as a number of Lua
    if not failure then
      redis.call('DECR', KEYS[#KEYS]) -- it may be somebody else's
    end
    return nil, redis.error_reply('FENCE ' .. KEYS[#KEYS] .. ' holds no number below 2^53')
  end
  local now, told
  if not tonumber(epoch) then
    now = time_in_us()
    epoch, told = epoch_in_cluster(epoch, now)
    if not epoch then
      return nil, told
    end
  end
  seen = tonumber(seen)
  if told or seen == 0 or fence <= seen then
    fence = math.max(fence, (now or time_in_us()) + epoch * DAY)
    redis.call('SET', KEYS[#KEYS], string.format('%.0f', fence))
  end
  return fence, nil, told
end

-- The fence number was taken before: were there an error in that after this, the lock would stay taken.
local function grant(token, ttl)
  redis.call('SET', KEYS[1], token, 'PX', ttl)
end
