-- Takes one vote: the lock KEYS[1] of this server, for the token ARGV[1] with a ttl of ARGV[2].
-- KEYS[2]  the last fence number
-- ARGV[3]  the last fence number that was seen on this connection
-- number            granted: greater than those of all grants and of all confirmations before
-- {holder, free in} busy (free in -1 ms: it never expires)
-- {type}            KEYS[1] is no lock
local token, ttl, seen = ARGV[1], ARGV[2], ARGV[3]

if type(holder) == 'table' then
  return {redis.call('TYPE', KEYS[1])}
end
if holder and holder ~= token then
  return {string.sub(holder, 1, 64), redis.call('PTTL', KEYS[1])}
end
local number, failure = next_fence(seen, 0)
if not number then
  return failure
end
grant(token, ttl)
return number
