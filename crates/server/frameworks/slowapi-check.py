"""A rate limit of `slowapi` on a route of FastAPI."""

import sys

from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded
from slowapi.util import get_remote_address

limiter = Limiter(get_remote_address, storage_uri=f"redis://127.0.0.1:{sys.argv[1]}")
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)


@app.get("/")
@limiter.limit("2/minute")
def index(request: Request):
    return "here"


client = TestClient(app)
statuses = [client.get("/").status_code for _ in range(4)]
assert statuses == [200, 200, 429, 429], statuses
print("the third request of two a minute gets 429")
