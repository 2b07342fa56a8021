"""page.py - the chat page: its head everywhere; in a real Chromium, driven by Playwright, where both are."""
import base64
import hashlib
import os
import re
import shutil
import sys
import tempfile

from server import PATIENCE, Server, Speaker, check, done

# --- without a browser ---
s = Server()
status, head, body = s.ask("GET", "/")
text = body.decode()
check("the page", status == 200 and head["content-type"] == "text/html; charset=utf-8" and text.startswith("<!DOCTYPE html>"), (status, head))
policy = dict(part.strip().split(" ", 1) for part in head["content-security-policy"].split(";"))


def hash_of(tag):
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
    check(f"one {tag}", len(found) == 1 and text.count(f"<{tag}") == 1, len(found))
    return "'sha256-" + base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode() + "'"


check("its policy names its script and its style", policy["script-src"] == hash_of("script") and policy["style-src"] == hash_of("style"), policy)
check("and nothing else", policy["default-src"] == "'none'" and policy["connect-src"] == "'self'" and policy["base-uri"] == "'none'" and
      policy["frame-ancestors"] == "'none'" and policy["form-action"] == "'none'", policy)
check("no address of elsewhere, no style or handler in an element, nothing that reads markup",
      not re.search(r"https?://|<[^>]+ (style|on\w+)=|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text))
check("HEAD", s.ask("HEAD", "/")[0] == 200)
check("POST is 405", s.ask("POST", "/", {})[0] == 405)
ask = {"prompt": "a", "max_tokens": 1}
for host, origin, wanted in [("localhost:%d", "http://localhost:%d", 200), ("127.0.0.1:%d", "https://127.0.0.1:%d", 200),
                             ("localhost:%d", "http://127.0.0.1:%d", 403), ("localhost:%d", "http://localhost", 403),
                             ("localhost:%d", "null", 403), ("evil.example:%d", "http://evil.example:%d", 421)]:
    host, origin = (x % s.port if "%" in x else x for x in (host, origin))
    body = b'{"prompt": "a", "max_tokens": 1}'
    status = s.raw(f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\nContent-Type: application/json\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n".encode() + body).split(b" ", 2)[1]
    check(f"Origin {origin} at {host}", int(status) == wanted, status)
s.process.terminate()
s.process.wait(PATIENCE)

# On an address that others reach a name may have been pointed here by anybody; an address in numbers, or a key, says enough.
with tempfile.NamedTemporaryFile("w") as keys:
    keys.write("secret\n")
    keys.flush()
    for options, key, host, wanted in [((), (), "evil.example", b"403"), ((), (), "127.0.0.1", b"200"), (("--allowed-host", "good.example"), (), "good.example", b"200"),
                                       (("--api-key-file", keys.name), ("Authorization: Bearer secret\r\n",), "evil.example", b"200"),
                                       (("--api-key-file", keys.name), (), "evil.example", b"401")]:
        s = Server("--host", "0.0.0.0", *options)
        status = s.raw(f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n{''.join(key)}"
                       f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body).split(b" ", 2)[1]
        check(f"its own page, {host} {options[:1]}", status == wanted, status)
        check("the page needs no key", s.ask("GET", "/")[0] == 200)
        s.process.terminate()
        s.process.wait(PATIENCE)

# --- in a browser ---
chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
try:
    from playwright.sync_api import sync_playwright
except ImportError:
    sync_playwright = None
if not chromium or not sync_playwright:
    print("skipped: the page in a browser:", "there is no chromium" if not chromium else "there is no playwright for this python")
    done()

folder = tempfile.mkdtemp()
speaker = Speaker(folder, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:")
EVIL = '<img src=x onerror="document.title=1"><script>document.title=2</script> & <b>so</b>'
speaker.say("evil", EVIL)
speaker.say("story", "Once there was a river.")
s = speaker.serve()
with sync_playwright() as p:
    browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
    page = browser.new_page(viewport={"width": 1000, "height": 700})
    page.set_default_timeout(1000 * PATIENCE)
    told = []
    page.on("console", lambda m: told.append(m.text))
    page.on("pageerror", lambda e: told.append(str(e)))
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.goto(f"http://127.0.0.1:{s.port}/")
    page.wait_for_selector("#pipeline option[value=evil]", state="attached")
    check("models are offered", page.eval_on_selector_all("#model option", "all => all.map(o => o.value)") == ["speaker"])

    def say(text, n):
        page.fill("#text", text)
        page.press("#text", "Enter")
        page.wait_for_function("n => document.querySelectorAll('.turn.assistant .note').length === n && document.getElementById('stop').hidden", arg=n)
        return page.locator(".turn.assistant .answer").last.inner_text()

    page.keyboard.press("Alt+s")
    page.select_option("#pipeline", "evil")
    check("what a model says is text", say("hello", 1) == EVIL, page.locator("#log").inner_html())
    check("and no markup", page.title() == "Cadenza" and page.locator("#log img, #log script, #log b").count() == 0, page.title())
    check("what a user says too", page.locator(".turn.user").inner_text() == "hello")
    page.check("#colour")
    page.select_option("#pipeline", "story")
    check("an answer", say("<i>again</i>", 2) == "Once there was a river.")
    check("users' markup is text", page.locator(".turn.user i").count() == 0)
    page.wait_for_selector(".token")
    check("coloured tokens are the same text", page.locator(".turn.assistant .answer").last.inner_text() == "Once there was a river.")
    page.locator(".token").first.hover()
    tip = page.locator("#tip").inner_text()
    check("alternatives on hover", re.search(r'\d+\.\d %  "', tip) and len(tip.splitlines()) >= 3, tip)
    page.select_option("#strategy", "beam")
    fields = page.eval_on_selector_all("#own [data-name]", "all => all.map(f => f.dataset.name)")
    page.select_option("#strategy", "")
    check("fields of a decode loop's schema", isinstance(fields, list), fields)
    page.fill("#usual [data-name=max_tokens]", "2")
    short = say("more", 3)
    check("settings are sent", 0 < len(short) < len("Once there was a river."), short)
    page.fill("#usual [data-name=max_tokens]", "")
    page.select_option("#pipeline", "")
    page.uncheck("#colour")
    page.fill("#usual [data-name=temperature]", "7")
    page.fill("#usual [data-name=top_p]", "3")
    page.fill("#text", "wrong")
    page.press("#text", "Enter")
    page.wait_for_selector(".fault")
    check("a refusal is told", "top_p" in page.locator(".fault").inner_text(), page.locator(".fault").inner_text())
    page.fill("#usual [data-name=top_p]", "")
    page.route("**/v1/chat/completions", lambda route: None) # it never answers
    page.fill("#text", "on and on")
    page.press("#text", "Enter")
    page.wait_for_selector("#stop:not([hidden])")
    page.keyboard.press("Escape")
    page.wait_for_selector("#stop", state="hidden")
    check("Escape stops", page.locator("#send").is_visible() and page.locator(".note").last.inner_text() == "stopped")
    check("what was not answered can be sent again", page.input_value("#text") == "on and on", page.input_value("#text"))
    page.unroute("**/v1/chat/completions")
    page.keyboard.press("Alt+n")
    check("a new conversation", page.locator(".turn").count() == 0)
    was = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.click("#look")
    check("dark and light", page.evaluate("getComputedStyle(document.body).backgroundColor") != was, was)
    page.set_viewport_size({"width": 360, "height": 640})
    check("a phone's width", page.evaluate("document.documentElement.scrollWidth") <= 360, page.evaluate("document.documentElement.scrollWidth"))
    check("it asks nobody else", all(u.startswith(f"http://127.0.0.1:{s.port}/") or u.startswith("data:") for u in asked), asked)
    check("the browser has nothing to complain of", [t for t in told if "400" not in t] == [], told)
    browser.close()
s.process.terminate()
s.process.wait(PATIENCE)
done()
