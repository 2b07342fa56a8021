-- cot_decoding.lua - try the k likeliest first tokens, go on greedily from each, give the answer the model is surest of.
--
-- Wang and Zhou, "Chain-of-Thought Reasoning Without Prompting" (2024): the greedy path is often a hasty answer, a path that
-- reasons hides behind another first token, and shows by how sure the model is when it comes to the answer. Sureness is the
-- mean, over the answer's tokens, of the best token's probability less that of the second.

-- The k likeliest first tokens, each with a fork of the row: { seq, ids, margins, reason }.
local function paths(ctx, k)
  local probs = ctx:softmax(ctx:process(ctx:forward())):row(1)
  local tokens, values = probs:topk(math.max(2, k))
  local all, margin = {}, values[1] - values[2]
  for i = 1, k do
    local path = { seq = ctx:seq_of_row(1):fork(), ids = { tokens[i] }, margins = { margin } }
    path.reason = ctx:stop_test({ path.ids }, { 1 })[1]
    path.seq:append(tokens[i])
    all[i] = path
  end
  return all
end

-- One more token for each path that goes on.
local function step(ctx, all)
  local live, seqs, rows = {}, {}, {}
  for _, path in ipairs(all) do
    if not path.reason then live[#live + 1], seqs[#seqs + 1], rows[#rows + 1] = path, path.seq, 1 end
  end
  if #live == 0 then return false end
  local probs = ctx:softmax(ctx:seq_process(seqs, rows, ctx:seq_forward(seqs, "last")))
  for i, path in ipairs(live) do
    local tokens, values = probs:row(i):topk(2)
    path.ids[#path.ids + 1] = tokens[1]
    path.margins[#path.margins + 1] = values[1] - values[2]
    path.reason = ctx:stop_test({ path.ids }, { 1 })[1]
    if path.reason then path.seq:free() else path.seq:append(tokens[1]) end
  end
  return true
end

-- First and last byte of the pattern's last match, or of its capture; nil: there is none.
local function span(text, pattern)
  local from, to, found_from, found_to = 1, 0, nil, nil
  while true do
    local a, b, capture = text:find(pattern, from)
    if not a or b < a then return found_from, found_to end
    found_from, found_to = a, b
    if type(capture) == "string" then
      found_from = text:find(capture, a, true)
      found_to = found_from + #capture - 1
    end
    from = b + 1
  end
end

-- The mean margin of the tokens that hold the answer; of all without a pattern, 0 without an answer.
local function sureness(ctx, path)
  local text, first, last = "", 1, {}
  for i, id in ipairs(path.ids) do
    text = text .. (ctx:token_text(id) or "")
    last[i] = #text
  end
  local from, to = 1, #text
  if ctx.params.pattern then from, to = span(text, ctx.params.pattern) end
  if not from then return 0 end
  local sum, n = 0, 0
  for i, b in ipairs(last) do
    if b >= from and first <= to and b >= first then sum, n = sum + path.margins[i], n + 1 end
    first = b + 1
  end
  return n > 0 and sum / n or 0
end

local function run(ctx)
  local all, best, values = paths(ctx, ctx.params.k), nil, {}
  while step(ctx, all) do end
  for i, path in ipairs(all) do
    values[i] = sureness(ctx, path)
    if not best or values[i] > values[best] then best = i end
  end
  ctx:append_chunk(1, all[best].ids)
  ctx:result("best", { best }, "int64")
  ctx:result("sureness", values, "float32")
end

return cadenza.strategy {
  id = "cot_decoding", version = "1.0.0", one_row = true, greedy = true,
  summary = "Try several first tokens and return the answer of highest confidence",
  params = {
    k       = { 5, 1, 64, "first tokens to try", integer = true },
    pattern = { type = "string", help = "a Lua pattern; its last match, or that match's capture, is the answer; unset: all" },
  },
  run = run,
}
