-- Writes to the hash KEYS[1]: ARGV[1] is the fence, then come fields and their values.
-- 1: written. 0: somebody with a larger fence has written before.
local last = redis.call('HGET', KEYS[1], 'fence') or 0
if tonumber(last) > tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', unpack(ARGV))
return 1
