-- power_sampling.lua - Karan and Du, "Reasoning with Sampling: Your Base Model is Smarter Than You Think" (2025): draws from p^alpha
-- of whole answers by Metropolis-Hastings. Block by block the answer grows; then, several times, its end from a random place on
-- is drawn anew, and taken with probability min(1, (p(new) / p(old))^(alpha - 1)): the proposal is the model itself.
return cadenza.strategy {
  id = "org.example.power-sampling", version = "1.0.0", one_row = true, samples = true,
  params = {
    alpha = { 4, 1, 100, "the power" },
    block = { 8, 1, 10000, "tokens that the answer grows by", integer = true },
    steps = { 4, 0, 1000, "new ends that are tried for each block", integer = true },
  },
  run = function(ctx)
    local p, at, taken, tried = ctx.params, #ctx:input_ids(), 0, 0
    ctx:forward()
    local answer, stop = ctx:seq_of_row():fork(), false
    while not stop do
      stop = ctx:rollouts({ answer }, p.block)[1].stop
      for _ = 1, p.steps do
        local n = #answer - at
        local from = math.floor(ctx:uniform() * n)
        local other = answer:fork():truncate(at + from)
        local r = ctx:rollouts({ other }, n - from)[1]
        tried = tried + 1
        if math.log(ctx:uniform()) < (p.alpha - 1) * (r.logprob - ctx:seq_score(answer, n - from)[1]) then
          answer, stop, taken = other, r.stop, taken + 1
        end
      end
    end
    ctx:append_chunk(1, answer:ids():totable(at + 1, #answer))
    ctx:result("accepted", { taken, tried }, "int64")
  end,
}
