-- The content of the lock KEYS[1]: false if there is no key, a table if the key is not a string.
local holder = redis.pcall('GET', KEYS[1])
if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE') then
  return holder -- missing permission, which says nothing about the lock
end
