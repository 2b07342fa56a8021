-- mirostat_v2.lua - sampling that holds the surprise of its tokens near a target, by dropping those that surprise too much.
--
-- The later, simpler form of Mirostat (Basu et al., 2021) as its authors' program and llama.cpp have it: tokens of a surprise
-- above mu go, the best one stays; after each draw mu moves against the error. That feedback needs the distribution a token
-- was drawn from, which the loop has and a processor has not: so this is a strategy, with one mu for each row.

local LN2 = math.log(2)

-- -log2(p) > mu is x < z - mu * ln 2, z being the logarithm of the sum of exponentials.
local function truncate(row, mu)
  row:mask_below(math.min(row:max(), row:logsumexp() - mu * LN2))
end

local function run(ctx)
  local p, mu, mus, surprises = ctx.params, {}, {}, {}
  for r = 1, ctx.n_rows do mu[r], mus[r], surprises[r] = 2 * p.tau, {}, {} end
  while not ctx:done() do
    local scores = ctx:process(ctx:forward())
    for r = 1, ctx.n_rows do truncate(scores:row(r), mu[r]) end
    ctx:record("scores", scores)
    local probs = ctx:softmax(scores)
    local tokens = ctx:multinomial(probs)
    for r = 1, ctx.n_rows do
      local surprise = 0                     -- rows that have ended hold pads, which nobody drew
      if not ctx:row_done(r) then
        surprise = math.log(1 / probs:row(r)[tokens[r]], 2)
        mu[r] = mu[r] - p.eta * (surprise - p.tau)
      end
      mus[r][#mus[r] + 1], surprises[r][#surprises[r] + 1] = mu[r], surprise
    end
    ctx:append_rows(tokens)
  end
  ctx:result("mu", mus, "float32")
  ctx:result("surprise", surprises, "float32")
end

return cadenza.strategy {
  id = "mirostat_v2", version = "1.0.0", samples = true,
  summary = "Sampling that drops tokens of too much surprise, for a given average",
  params = {
    tau = { 5.0, 0, 100, "target of the surprise, in bits" },
    eta = { 0.1, 0, 10, "how fast mu follows the error" },
  },
  run = run,
}
