-- Tells what is at KEYS[1], a key that was not free.
-- {value, ms}: a lock, and its time to live (-1: no expiry). {type}: no lock. nil: it is free now.
local kind = redis.call('TYPE', KEYS[1])
if kind.ok == 'none' then
  return nil
end
if kind.ok ~= 'string' then
  return {kind}
end
return {redis.call('GETRANGE', KEYS[1], 0, 63), redis.call('PTTL', KEYS[1])}
