"""Django's own cache."""

import sys

import django
from django.conf import settings

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{sys.argv[1]}",
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)
django.setup()
from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402

values = {f"key:{number}": "v" * 1_000 for number in range(1_000)}
assert cache.set_many(values, timeout=600) == []
assert cache.get_many(values) == values
assert cache.add("new", 1) and not cache.add("new", 2)
assert cache.incr("new", 5) == 6
assert cache.touch("new", 60) and cache.has_key("new")
assert cache.get_or_set("made", lambda: {"a": [1]}) == {"a": [1]}
cache.delete_many(values)
assert cache.get("key:1") is None
session = SessionStore()
session["user"] = 7
session.save()
assert SessionStore(session.session_key)["user"] == 7
cache.clear()
print("1,000 values at once, add, incr, touch, a session, and clear")
