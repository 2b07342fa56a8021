-- tool_use.lua - text between two marks is a question to a tool, whose answer the model reads on from.
--
-- Schick et al., "Toolformer: Language Models Can Teach Themselves to Use Tools" (2023), write calls into the text and go on
-- behind their results; Yao et al., "ReAct" (2022), interleave them with reasoning. Which tool: the "name" of a JSON object
-- between the marks, else the parameter. Whoever answers is --tool NAME=COMMAND or the program's on_tool.

-- The newest question that has been closed since `from`: what is inside, and where its end mark ends.
local function question(p, text, from)
  local _, open = text:find(p.open, from, true)
  if not open then return end
  local close, last = text:find(p.close, open + 1, true)
  if close then return text:sub(open + 1, close - 1), last end
end

local function name_of(p, inside)
  return inside:find("^%s*{") and inside:match('"name"%s*:%s*"([^"\\]+)"') or p.tool
end

-- The answer as it goes into the text: without the end of its last line, and not too long.
local function framed(p, answer)
  answer = answer:gsub("%s+$", "")
  if #answer > p.longest then
    local n = p.longest
    while n > 0 and answer:byte(n + 1) >= 0x80 and answer:byte(n + 1) < 0xC0 do n = n - 1 end
    answer = answer:sub(1, n)
  end
  return p.before .. answer .. p.after
end

local function answer(ctx, inside, calls)
  local p, name = ctx.params, name_of(ctx.params, inside)
  local said, why = ctx:call(name, inside)
  calls[#calls + 1] = { name = name, text = inside, answer = said or why, failed = not said }
  ctx:insert(ctx:encode(framed(p, said or why)), { shown = p.shown, counts = p.counts, stops = p.counts, who = name })
end

local function run(ctx)
  local p, calls, from, draws = ctx.params, {}, 1, ctx.do_sample
  while not ctx:done() do
    local scores = ctx:process(ctx:forward())
    if draws then ctx:append(ctx:multinomial(ctx:softmax(scores))) else ctx:append((ctx:argmax(scores, 1))) end
    if not ctx:done() and #calls < p.calls and ctx:text_tail(#p.close + 64):find(p.close, 1, true) then
      local inside, last = question(p, ctx:text(), from)
      if inside then
        answer(ctx, inside, calls)
        from = math.max(last, #ctx:text()) + 1
      end
    end
  end
  ctx:result("calls", calls)
end

return cadenza.strategy {
  id = "tool_use", version = "1.0.0", one_row = true,
  summary = "Ask tools what stands between two marks, and go on behind their answers",
  params = {
    open    = { "<tool_call>", "what a question begins behind" },
    close   = { "</tool_call>", "what ends it" },
    tool    = { "tool", "who is asked where the question names nobody" },
    before  = { "<tool_response>", "goes before an answer" },
    after   = { "</tool_response>", "goes behind it" },
    calls   = { 16, 0, 100000, "most questions of one text", integer = true },
    longest = { 4000, 1, 1000000, "most bytes of an answer", integer = true },
    shown   = { true, "answers are a part of the text" },
    counts  = { false, "they count against the length" },
  },
  run = run,
}
