-- contrastive_decoding.lua - what a large model knows beyond a small one.
--
-- Li et al., "Contrastive Decoding: Open-ended Text Generation as Optimization" (2022), in the form of O'Brien and Lewis,
-- "Contrastive Decoding Improves Reasoning in Large Language Models" (2023): of the tokens that the request's model, the
-- expert, finds at least `alpha` times as likely as its best one, the score is (1 + beta) * expert - beta * amateur. The
-- amateur is the request's assistant; it follows the row in a sequence of its own.

local function run(ctx)
  local p = ctx.params
  local amateur_vocab = ctx:vocab_size("assistant")
  if not amateur_vocab then error("needs an amateur: a second model, given as --assistant") end
  if amateur_vocab ~= ctx.n_vocab then
    error("the amateur has " .. amateur_vocab .. " tokens, the model has " .. ctx.n_vocab .. ": they must be the same")
  end
  local seq = ctx:seq_new("assistant")
  seq:hide_as(1):append(ctx:input_ids(1)) -- what the row reads, without its pads
  local amateur = ctx:scratch_scores(1):row(1)
  while not ctx:done() do
    amateur:fill(0):add(ctx:seq_forward({ seq }, "last"):row(1))
    local scores = ctx:forward()
    ctx:record("logits", scores)
    local row = scores:row(1)
    row:mask_below(row:max() + math.log(p.alpha))
    row:mul(1 + p.beta):axpy(-p.beta, amateur)
    ctx:process(scores)
    ctx:record("scores", scores)
    local token = ctx.do_sample and ctx:multinomial(ctx:softmax(scores))[1] or ctx:argmax(scores, 1)
    ctx:append(token)
    seq:append({ token })
  end
end

return cadenza.strategy {
  id = "contrastive_decoding", version = "1.0.0", one_row = true,
  summary = "Prefer tokens that a large model finds likelier than a small one",
  params = {
    alpha = { 0.1, 0, 1, "share of the best token's probability a token must have", above_min = true },
    beta  = { 0.5, 0, 100, "weight of the amateur; 0: none" },
  },
  run = run,
}
