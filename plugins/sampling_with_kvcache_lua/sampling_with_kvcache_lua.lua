-- sampling_with_kvcache_lua.lua - a sampling loop that keeps its own books.
--
-- Every step: temperature, then top-k, then top-p, a draw (or the best token), and two notes per token: its log-probability
-- under the distribution it was drawn from (scores) and under the model's own, at temperature 1 (logprobs). Filters are
-- off unless given. The C package sampling_with_kvcache is the same loop; the two give equal results.

-- Temperature first: it changes what top-p keeps.
local function filter(p, scores)
  if p.temperature then scores:div(p.temperature) end
  if p.top_k then scores:keep_topk(p.top_k) end
  if p.top_p and p.top_p < 1 then scores:keep_topp(p.top_p) end
end

-- A token for every row; scores become probabilities when drawing.
local function choose(ctx, scores)
  if not ctx.params.do_sample then return ctx:argmax(scores) end
  return ctx:multinomial(ctx:softmax(scores))
end

-- Rows that had ended hold pads, which nobody drew: their notes are 0.
local function note(notes, logp, tokens, ended)
  for r, list in ipairs(notes) do
    list[#list + 1] = ended[r] and 0.0 or logp[r][tokens[r]]
  end
end

local function run(ctx)
  local own, drawn = ctx:scratch_scores(ctx.n_rows), ctx:scratch_scores(ctx.n_rows)
  local scores_of, logprobs_of, sequences, ended = {}, {}, {}, {}
  for r = 1, ctx.n_rows do scores_of[r], logprobs_of[r] = {}, {} end

  while not ctx:done() do
    local scores = ctx:forward()                      -- runs whatever the KV cache lacks
    ctx:record("logits", scores)
    ctx:log_softmax(own:fill(0):add(scores))
    filter(ctx.params, scores)
    ctx:record("scores", scores)
    ctx:log_softmax(drawn:fill(0):add(scores))
    local tokens = choose(ctx, scores)
    for r = 1, ctx.n_rows do ended[r] = ctx:row_done(r) end
    note(scores_of, drawn, tokens, ended)
    note(logprobs_of, own, tokens, ended)
    ctx:append_rows(tokens)                           -- pads finished rows, streams, asks the stop rules
  end

  for r = 1, ctx.n_rows do sequences[r] = ctx:input_ids(r):totable() end
  ctx:result("sequences", sequences, "int64")
  ctx:result("scores", scores_of, "float32")
  ctx:result("logprobs", logprobs_of, "float32")
end

return cadenza.strategy {
  id = "org.cadenza.sampling-with-kvcache-lua", version = "1.0.0",
  summary = "Sampling that returns the log-probability of every token",
  params = {
    do_sample   = { true, "draw from the distribution; false takes the best token" },
    temperature = { type = "number", optional = true, above_min = true, min = 0, max = 1e6,
                    help = "scores are divided by it" },
    top_k       = { type = "integer", optional = true, min = 1, max = 1e9,
                    help = "keep this many best tokens" },
    top_p       = { type = "number", optional = true, above_min = true, min = 0, max = 1,
                    help = "keep the best tokens that reach this probability" },
  },
  run = run,
}
