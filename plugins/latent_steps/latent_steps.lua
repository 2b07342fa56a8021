-- latent_steps.lua - some steps of thought that are vectors, not words; then the answer.
--
-- Hao et al., "Training large language models to reason in a continuous latent space" (Coconut, 2024): the last hidden state is
-- what the model reads next. Zhang et al., "Soft Thinking" (2025): it reads the mean of its k likeliest tokens' embeddings, each
-- by its probability, and goes over to words once it is sure. The token of such a step is a placeholder that nobody sees.

local function mixture(ctx, probs, k)
  local ids, weights = probs:topk(k)
  local sum, mass = vec.new(ctx:facts().width), 0
  for i, vector in ipairs(ctx:embed(ids)) do
    sum:add(vector:scale(weights[i]))
    mass = mass + weights[i]
  end
  return sum:scale(1 / mass)
end

-- What the model reads next in place of a token; nil: it is sure enough to speak.
local function thought(ctx, p, scores)
  if p.input == "state" then return ctx:hidden_states()[1][1] end
  local row = scores:row(1):copy()
  if p.sure > 0 and row:entropy() < p.sure then return nil end
  return mixture(ctx, row:softmax(), p.k)
end

return cadenza.strategy {
  id = "latent_steps", version = "1.0.0", one_row = true,
  summary = "Think in vectors for some steps, then answer in words",
  params = {
    steps = { 4, 0, 100000, "steps of thought before the answer", integer = true },
    input = { "state", words = { "state", "mixture" },
              help = "what a step reads: the last hidden state, or the mean of the likeliest tokens' embeddings" },
    k     = { 10, 1, 1000, "of a mixture: how many tokens", integer = true },
    sure  = { 0, 0, 100, "of a mixture: thought ends when the next token's entropy is below that; 0: never" },
    token = { 0, 0, 1000000000, "the placeholder's id, which processors see", integer = true },
  },
  run = function(ctx)
    local p, draws, n = ctx.params, ctx:config("do_sample"), 0
    ctx:keep_hidden("last", { ctx:facts().n_layers })
    local scores = ctx:process(ctx:forward())
    while n < p.steps do
      local vector = thought(ctx, p, scores)
      if not vector then break end
      local row = ctx:seq_of_row()
      ctx:insert({ p.token }, { who = "thought" })
      row:embeds(row:length(), { vector })
      scores, n = ctx:process(ctx:forward()), n + 1
    end
    ctx:keep_hidden("last", {})
    ctx:result("thoughts", n)
    while true do
      if draws then ctx:append(ctx:multinomial(ctx:softmax(scores))) else ctx:append((ctx:argmax(scores, 1))) end
      if ctx:done() then return end
      scores = ctx:process(ctx:forward())
    end
  end,
}
