"""hostile.py - names, texts and scripts that try to do things through the program: to a terminal, and by the names of tools.
usage: hostile.py PROGRAM"""
import os
import pty
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
from checks import check, done, read_terminal

PROGRAM = os.path.abspath(sys.argv[1])


def piped(*words):
    p = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True)
    return p.returncode, p.stdout, p.stderr


def shown(*words):
    """What a terminal is told."""
    master, slave = pty.openpty()
    p = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    text = read_terminal(master)
    p.wait()
    return p.returncode, text.replace(b"\r\n", b"\n")


BAD = "\x1b[31m\u009b2J\x7f\b"
SAFE = rb"\x1b[31m\xc2\x9b2J\x7f\x08"
os.chdir(tempfile.mkdtemp())
with open("loud.lua", "w") as f:
    f.write("""return cadenza.strategy { id = "org.example.loud", summary = "%s gr\u00fc\u00df \u2014\u00a0", run = function(ctx)
  print("said %s")
  if ctx.seed == 7 then error("%s") end
  if ctx.seed > 7 then print(ctx:call(ctx.seed == 8 and "say" or "say=one", string.rep("x", 200000))) end
end }""" % ((BAD,) * 3))
with open("loud.ini", "w") as f:
    f.write("[pipeline]\nstrategy = lua:loud.lua\n")

status, out, err = piped("plugin", "info", "loud.lua")
check("a pipe has it as it is", status == 0 and BAD.encode() in out, out)
for words in (("plugin", "info", "loud.lua"), ("explain", "loud.ini"), ("plugin", "page", "loud.lua")):
    status, text = shown(*words)
    check(f"{words}: a terminal is told nothing", status == 0 and not any(c in text for c in (b"\x1b", b"\xc2\x9b", b"\x7f", b"\b")), text)
status, text = shown("plugin", "info", "loud.lua")
check("it is shown what there is", SAFE in text and "gr\u00fc\u00df \u2014\u00a0".encode() in text, text)
RUN = ("run", "--plugin", "loud.lua", "-s", "pipeline.strategy=org.example.loud", "-p", "a")
for seed in "1", "7":
    status, text = shown(*RUN, "--seed", seed)
    check(f"a script's words, seed {seed}", b"said " in text and b"\x1b" not in text and b"\xc2\x9b" not in text, text)
status, out, err = piped("run", BAD)
check("sentences, piped too", status and SAFE in err and b"\x1b" not in err, err)

# --- tools: a script says a name, and nothing of the command, which need not read what it is told
status, out, err = piped(*RUN, "--seed", "8", "--tool", "say=exec 0<&-; sleep 0.1; echo safe; echo only", "--tool", "other=echo no")
check("a tool by its name", b"safe" in err, err)
status, out, err = piped(*RUN, "--seed", "9", "--tool", "say=one=echo reached")
check("no part of a command is a tool", b"reached" not in err and b'no tool "say=one"' in err, err)

done()
