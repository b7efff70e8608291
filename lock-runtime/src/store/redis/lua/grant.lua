-- Grants the lock KEYS[1].
-- KEYS[#KEYS]  the fence counter, shared by all locks

local DAY = 86400000000 -- all times in microseconds
local EPOCH_VALID = 100000

local function time_in_us()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Returns the epoch of this cluster node, which only the node knows, or nil and the error. `before` is
-- the last report to the client, "<epoch> <time>", or empty. It is valid for a tenth of a second, because
-- reading the epoch takes longer than everything else here: in so short a time, no other node can take
-- over, grant the lock and fail, and this node be elected again. After that, the second result is a new
-- report.
local function epoch_in_cluster(before, now)
  local epoch, at = string.match(before, '^(%d+) (%d+)$')
  if epoch and now - at >= 0 and now - at < EPOCH_VALID then
    return epoch
  end
  local info = redis.pcall('CLUSTER', 'INFO')
  if type(info) == 'table' then
    return nil, info
  end
  epoch = string.match(info, 'cluster_my_epoch:(%d+)')
  return epoch, string.format('%s %.0f', epoch, now)
end

-- Returns the next fence number, one more than the last, or nil and the error. The counter may have lost
-- numbers if the next one is not greater than `seen`, which the client has seen on this connection, or if
-- the client has seen none (0). The number is then at least the time, plus a day for each epoch of the
-- server, that is for each failover: unless the clock goes back by more than that, no earlier number was
-- as great. In a cluster, `epoch` is the last report to the client, and the third result a new report.
local function next_fence(seen, epoch)
  local fence = redis.pcall('INCR', KEYS[#KEYS])
  local failure = type(fence) == 'table' and fence.err
  if failure and not string.find(failure, 'integer') and not string.find(failure, 'overflow') then
    return nil, fence
  elseif failure or fence >= 2 ^ 53 then -- Lua's numbers are not exact beyond
    if not failure then
      redis.call('DECR', KEYS[#KEYS]) -- the key may belong to something else
    end
    return nil, redis.error_reply('FENCE ' .. KEYS[#KEYS] .. ' holds no number below 2^53')
  end
  local now, report
  if not tonumber(epoch) then
    now = time_in_us()
    epoch, report = epoch_in_cluster(epoch, now)
    if not epoch then
      return nil, report
    end
  end
  seen = tonumber(seen)
  if report or seen == 0 or fence <= seen then
    fence = math.max(fence, (now or time_in_us()) + epoch * DAY)
    redis.call('SET', KEYS[#KEYS], string.format('%.0f', fence))
  end
  return fence, nil, report
end

-- Called after the fence number was taken: an error after the grant would leave the lock taken.
local function grant(token, ttl)
  redis.call('SET', KEYS[1], token, 'PX', ttl)
end
