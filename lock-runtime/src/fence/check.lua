-- Writes to the hash KEYS[1]: ARGV[1] is the fence, then come fields and their values.
-- Returns 1 if it was written, or 0 if a writer with a larger fence came first.
local last = redis.call('HGET', KEYS[1], 'fence') or 0
if tonumber(last) > tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', unpack(ARGV))
return 1
