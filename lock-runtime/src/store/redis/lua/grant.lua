-- How the lock KEYS[1] is granted.
-- KEYS[#KEYS]  the last fence number, shared by all locks

-- The next fence number, one more than the last, or none and the error. If it is not greater than
-- `seen`, the last one that the client has seen on its connection, or if that has seen none (0), the
-- counter may have lost some. Then the number is at least the time in microseconds, which each epoch
-- of the server, that is each failover, puts forward by a day: while the clock does not go back by
-- more, no number was as great before. The epoch may be known to the server only ('cluster').
local DAY = 86400000000
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
  seen = tonumber(seen)
  if seen == 0 or fence <= seen then
    if epoch == 'cluster' then
      local info = redis.pcall('CLUSTER', 'INFO')
      if type(info) == 'table' then
        return nil, info
      end
      epoch = string.match(info, 'cluster_my_epoch:(%d+)')
    end
    local time = redis.call('TIME')
    fence = math.max(fence, time[1] * 1000000 + time[2] + epoch * DAY)
    redis.call('SET', KEYS[#KEYS], string.format('%.0f', fence))
  end
  return fence
end

-- The fence number was taken before: were there an error in that after this, the lock would stay taken.
local function grant(token, ttl)
  redis.call('SET', KEYS[1], token, 'PX', ttl)
end
