-- mixture_of_inputs.lua - Zhuang et al., "Text Generation Beyond Discrete Token Sampling" (2025): the model reads, in place of the
-- token that was drawn, the mean of embeddings with weights (h p + (beta + 1 - h) drawn) / (beta + 1), where h is the entropy of
-- p as a share of the greatest. Of p the k likeliest tokens are read; what the others have goes to the one that was drawn.
return cadenza.strategy {
  id = "org.example.mixture-of-inputs", version = "1.0.0", one_row = true, samples = true,
  params = { beta = { 1, 0, 1e9, "how much the draw counts" }, k = { 20, 1, 1000, "tokens that are mixed", integer = true } },
  run = function(ctx)
    local p, row, shares = ctx.params, ctx:seq_of_row(), {}
    while not ctx:done() do
      local scores = ctx:process(ctx:forward())
      local h = scores:row(1):entropy() / math.log(ctx.n_vocab)
      local probs = ctx:softmax(scores)
      local ids, ps = probs:row(1):topk(p.k)
      local token = ctx:multinomial(probs)[1]
      ctx:append(token)
      local mix, rest = vec.new(ctx:facts().width), 1
      for i, vector in ipairs(ctx:embed(ids)) do
        local w = h * ps[i] / (p.beta + 1)
        mix:axpy(w, vector)
        rest = rest - w
      end
      if not ctx:done() then row:embeds(row:length(), { mix:axpy(rest, ctx:embed({ token })[1]) }) end
      shares[#shares + 1] = rest
    end
    ctx:result("drawn", shares, "float32")
  end,
}
