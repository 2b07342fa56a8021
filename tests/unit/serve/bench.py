"""bench.py - `cadenza bench serve` against this server, and against another program's that speaks the same API."""
import http.server
import json
import subprocess
import tempfile
import threading
import time

from server import PATIENCE, PROGRAM, Server, check, done


def bench(url, *options):
    out = subprocess.run([PROGRAM, "bench", "serve", url, "--json", "-", *options], capture_output=True, text=True, timeout=PATIENCE)
    try:
        return out.returncode, json.loads(out.stdout), out.stderr
    except ValueError:
        return out.returncode, {}, out.stderr + out.stdout


# --- ours ---
s = Server()
url = f"http://127.0.0.1:{s.port}"
before = s.metrics()
status, r, told = bench(url, "--streams", "4", "--requests", "12", "--prompt-tokens", "20", "--new-tokens", "10")
check("all are answered", status == 0 and r.get("answered") == 12 and r["failed"] == 0, (status, r, told))
after = s.metrics()
check("tokens are those that the server made", r["completion_tokens"] == 120 ==
      after["generation_tokens_total"] - before.get("generation_tokens_total", 0), r)
check("and read", r["prompt_tokens"] == after["prompt_tokens_total"] - before.get("prompt_tokens_total", 0), r)
check("a first token each", r["ttft_ms"]["n"] == 12 and 0 < r["ttft_ms"]["p50"] <= r["ttft_ms"]["p99"] <= r["request_ms"]["max"], r)
check("gaps in order", r["inter_token_ms"]["p50"] <= r["inter_token_ms"]["p90"] <= r["inter_token_ms"]["p99"], r)
status, r, told = bench(url + "/v1/", "--rate", "200", "--requests", "10", "--streams", "10", "--new-tokens", "4", "--shared-prefix", "16",
                        "--prefixes", "2")
check("at a rate", status == 0 and r["answered"] == 10 and r["completion_tokens"] == 40, (r, told))
status, r, told = bench(url, "--model", "nobody", "--requests", "2", "--streams", "1")
check("refusals are counted and told", status == 1 and r["failed"] == 2 and "nobody" in r["why"], (r, told))
table = subprocess.run([PROGRAM, "bench", "serve", url, "--requests", "2", "--streams", "2", "--new-tokens", "3"],
                       capture_output=True, text=True)
check("a table", table.returncode == 0 and "new tokens a second" in table.stdout and "between tokens" in table.stdout, table)
s.stop()
status, r, told = bench(url, "--requests", "1")
check("nobody there", status == 1 and "cannot connect" in told, told)
for wrong in ["https://a", "http://", "http://:1"]:
    status, r, told = bench(wrong)
    check(f"{wrong} is refused", status == 2, told)


# --- another's: answers by length of the prompt, closes connections now and then, breaks off on wish ---
class Other(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    n, kept, bodies = 0, 0, []

    def log_message(self, *_):
        pass

    def do_GET(self):
        data = json.dumps({"data": [{"id": "theirs"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def event(self, data):
        data = b"data: " + data + b"\r\n\r\n"
        half = len(data) // 2 # an event in two chunks
        for piece in (data[:half], data[half:]):
            self.wfile.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
        self.wfile.flush()

    def do_POST(self):
        Other.n += 1
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Other.bodies.append((self.path, body, self.headers.get("Authorization")))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        if Other.n % 3 == 0:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(b"c\r\n: a comment\n\r\n")
        self.event(json.dumps({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}).encode())
        for _ in range(5):
            time.sleep(0.01)
            self.event(json.dumps({"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}).encode())
        if Other.broken:
            self.close_connection = True
            return
        self.event(b"[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    broken = False


other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
threading.Thread(target=other.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{other.server_port}"
with tempfile.NamedTemporaryFile("w") as f:
    f.write("secret\n")
    f.flush()
    status, r, told = bench(url, "--streams", "3", "--requests", "9", "--chat", "--may-end", "--api-key-file", f.name)
check("another's server", status == 0 and r.get("answered") == 9 and r["model"] == "theirs", (r, told))
check("without usage events are counted", r["completion_tokens"] == 45, r)
check("gaps are within requests", r["inter_token_ms"]["n"] == 36 and r["inter_token_ms"]["mean"] * 36 <= r["request_ms"]["mean"] * 9 and
      r["inter_token_ms"]["max"] <= r["request_ms"]["max"], r) # how long they were as they were read, nobody knows
check("requests are as long as they were at least", r["request_ms"]["p50"] >= 50, r)
check("what was sent", all(path == "/v1/chat/completions" and body["messages"][0]["role"] == "user" and body["stream"] and
                           "min_tokens" not in body and key == "Bearer secret" for path, body, key in Other.bodies), Other.bodies[:1])
Other.broken = True
status, r, told = bench(url, "--streams", "1", "--requests", "2")
check("a stream that breaks off fails", status == 1 and r["failed"] == 2 and "broke off" in r["why"], (r, told))
done()
