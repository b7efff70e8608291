-- What the lock KEYS[1] holds: a table if that is no string.
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE') then
  return holder -- the user may not look, which says nothing about the lock
end
