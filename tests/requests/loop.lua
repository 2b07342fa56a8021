-- loop.lua - a strategy that does in turn what strategies do, and not always in the usual order; it fails in its step `at`.
local function step(ctx, n, p)
  local raw = ctx:forward()
  if p.kind == "logits" or n % 2 == 0 then ctx:record("logits", raw) end
  local scores = ctx:process(raw)
  if p.kind == "scores" or n % 3 == 1 then ctx:record("scores", scores) end
  if n == p.at then error("failed in step " .. n) end
  return ctx:argmax(scores)
end

-- Sequences beside the rows: forks, appended to themselves, thrown away.
local function play(ctx, seqs)
  local s = ctx:seq_fork(ctx:seq_of_row(1))
  s:append(s:ids()):append(s:ids():sub(1, 2))
  seqs[#seqs + 1] = s
  ctx:seq_forward(s, "last")
  if #seqs > 3 then table.remove(seqs, 1):free() end
end

local function give(ctx, p)
  ctx:result("kept", { text = "x", list = { 1, 2.5, { true } } })
  ctx:result("numbers", { { 1, 2 }, { 3, 4 } })
  if p.kind ~= "fewer" then return end
  local ids = ctx:input_ids(1)
  ctx:return_rows { { row = 1, ids = { ids[#ids] }, n_new = 1, reason = "eos" } }
end

return cadenza.strategy {
  id = "org.example.loop", version = "1.0.0",
  params = {
    kind = { "plain", "what it does", words = { "plain", "logits", "scores", "seqs", "fewer" } },
    at = { 100000, 0, 100000, "the step in which it fails", integer = true },
  },
  run = function(ctx)
    local p, n, seqs = ctx.params, 0, {}
    while not ctx:done() do
      n = n + 1
      if p.kind == "seqs" then play(ctx, seqs) end
      ctx:append(step(ctx, n, p))
    end
    give(ctx, p)
  end,
}
