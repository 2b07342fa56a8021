"""turns.py - whose turn it is, over HTTP: one request holds the engine until all others wait, and each says when it begins, by a
script on the engine's thread."""
import os
import re
import tempfile
import threading

from server import Server, check, done, parse, post, until, write_hold

folder = tempfile.mkdtemp()
keys = os.path.join(folder, "keys")
with open(keys, "w") as f:
    f.write("first\nsecond\nthird\n")
with open(os.path.join(folder, "tell.ini"), "w") as f:
    f.write("[pipeline]\nprocessors = lua:tell.lua\n[generation]\ndo_sample = false\n")
with open(os.path.join(folder, "tell.lua"), "w") as f:
    f.write("""return cadenza.processor { id = "org.example.tell", version = "1.0.0",
  begin = function(ctx) print("begins " .. ctx.prompt_len) return {} end,
  apply = function(p, ids, row, ctx) end }
""")
write_hold(folder)


def order(server, guests, key=None):
    """Numbers of guests, (key, priority), from 1, in the order in which they begin: a guest's prompt is as long as its number."""
    status = []
    before = server.metrics()["iterations_total"]
    held = server.hold(key)
    until(lambda: server.metrics()["iterations_total"] > before) # it has begun

    def ask(number, own, priority):
        body = {"prompt": [10] * number, "temperature": 0, "max_tokens": 3, "cadenza": {"pipeline": "tell"}}
        if priority is not None:
            body["priority"] = priority
        status.append(parse(server.raw(post(body, own)))[0])

    threads = []
    for i, (own, priority) in enumerate(guests): # one after the other, so that it is known who came first
        threads.append(threading.Thread(target=ask, args=(i + 1, own, priority)))
        threads[-1].start()
        until(lambda: server.metrics()["num_requests_waiting"] > i)
    passes = server.metrics()["iterations_total"] + 640 # the request that runs has ten tokens more than when they came
    until(lambda: server.metrics()["iterations_total"] >= passes)
    held.close()
    for thread in threads:
        thread.join()
    check("all are answered", status == [200] * len(guests), status)

    def begun(): # the log is read by a thread of its own
        return [int(m[1]) for line in list(server.lines) if (m := re.search(r"begins (\d+)", line))]

    until(lambda: len(begun()) == len(guests))
    return begun()


pipelines = ("--max-running", "1", "--pipelines", folder)
by_key = ("--api-key-file", keys, "--open-metrics")
equals = [("first", None), ("first", None), ("second", None), ("third", None), ("second", None)]

s = Server(*pipelines, *by_key)
found = order(s, equals, "first")
check("first come", found == [1, 2, 3, 4, 5], found)
s.stop()

s = Server(*pipelines, *by_key, "--scheduler", "fair_share")
found = order(s, equals, "first")
# A key begins where the lowest account was when it came, so that its order among those that came beside it is the clock's.
check("by key", found[0] == 3 and sorted(found[1:3]) == [4, 5] and found[3:] == [1, 2], found)
s.stop()

s = Server(*pipelines, "--scheduler", "priority", "--scheduler-set", "ageing=0")
found = order(s, [(None, 5), (None, None), (None, -2), (None, 5), (None, -2)])
check("by priority", found == [3, 5, 2, 1, 4], found)
status, answer = s.post("/v1/completions", {"prompt": "a", "priority": "high"})
check("a priority is a number", status == 400 and answer["error"]["param"] == "priority", answer)
plugins = {(p["id"], p["kind"]): p for p in s.get("/v1/plugins")[1]["data"]}
check("schedulers are listed", all((i, "scheduler") in plugins for i in ("first_come", "prefill_first", "fair_share", "priority")))
check("with their parameters", "ageing" in plugins["priority", "scheduler"]["parameters"]["properties"], plugins["priority", "scheduler"])
s.stop()
done()
