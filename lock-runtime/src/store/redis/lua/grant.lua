-- How the lock KEYS[1] is granted.
-- KEYS[4]  the last fence number, shared by all locks

-- The time in microseconds, as text: a number would take longer to write than to get.
local function time_in_us()
  local time = redis.call('TIME')
  return time[1] .. string.sub('00000' .. time[2], -6)
end

local function to_ms(us)
  return math.floor(us / 1000)
end

-- The fence number of a grant at `us`, and the last one. It is greater than that and, while the clock
-- does not go back, than all before the counter was lost. None if the counter holds something else.
local function next_fence(us)
  local last = redis.pcall('GET', KEYS[4]) or '0'
  local number = type(last) == 'string' and tonumber(last)
  if number and number < 2 ^ 53 - 1 then
    return number < tonumber(us) and us or string.format('%.0f', number + 1), last
  end
end

-- The counter comes first: were there an error after the lock was taken, it would stay taken.
local function grant(token, ttl, fence)
  redis.call('SET', KEYS[4], fence)
  redis.call('SET', KEYS[1], token, 'PX', ttl)
end
