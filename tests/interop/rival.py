"""A rival with redis-py's lock: `rival.py URL KEY`."""

import sys
from time import monotonic_ns, sleep

import redis

url, key = sys.argv[1:]
lock = redis.Redis.from_url(url).lock(key, timeout=10)
while True:
    with lock:
        enter = monotonic_ns()
        sleep(0.005)
        leave = monotonic_ns()
    print("turn", enter, leave, flush=True)
    sleep(0.01)
