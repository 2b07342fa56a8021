-- mirostat.lua - sampling that holds the surprise of its tokens near a target, by choosing k anew for every token.
--
-- Basu et al., "Mirostat: A Neural Text Decoding Algorithm that Directly Controls Perplexity" (2021), algorithm 1. Words are
-- taken to follow Zipf's law; its exponent s is estimated from the m likeliest, and k is what then gives the surprise mu.
-- After each draw mu moves against the error. That feedback needs the distribution a token was drawn from, which the loop
-- has and a processor has not: so this is a strategy, with one mu for each row.

-- Zipf's exponent by least squares: log(p[i] / p[i + 1]) against log((i + 1) / i). Nil: nothing to estimate from.
local function zipf_exponent(row, m)
  local n = math.min(m, row:count_above(-math.huge))
  if n < 2 then return nil end
  local _, best = row:topk(n)                -- log(p[i] / p[j]) is the difference of their scores
  local products, squares = 0, 0
  for i = 1, n - 1 do
    local t = math.log((i + 1) / i)
    products = products + t * (best[i] - best[i + 1])
    squares = squares + t * t
  end
  return products / squares
end

-- How many tokens of n give the surprise mu, in bits, if the exponent is s.
local function k_of(s, mu, n)
  local epsilon, k = s - 1
  if math.abs(epsilon) < 1e-9 then
    k = 2 ^ mu / math.log(n)                 -- the limit of what follows, and s is 1
  else
    k = (epsilon * 2 ^ mu / (1 - n ^ -epsilon)) ^ (1 / math.max(s, 1e-9))
  end
  return math.max(1, math.floor(math.min(k, n)))
end

local function truncate(row, mu, m)
  local s = zipf_exponent(row, m)
  if s then row:keep_topk(k_of(s, mu, #row)) end
end

local function run(ctx)
  local p, mu, mus, surprises = ctx.params, {}, {}, {}
  for r = 1, ctx.n_rows do mu[r], mus[r], surprises[r] = 2 * p.tau, {}, {} end
  while not ctx:done() do
    local scores = ctx:process(ctx:forward())
    for r = 1, ctx.n_rows do truncate(scores:row(r), mu[r], p.m) end
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
  id = "mirostat", version = "1.0.0", samples = true,
  summary = "Sampling that keeps the surprise of its tokens near a target",
  params = {
    tau = { 5.0, 0, 100, "target of the surprise, in bits" },
    eta = { 0.1, 0, 10, "how fast mu follows the error" },
    m   = { 100, 2, 1000000, "likeliest tokens the exponent is estimated from", integer = true },
  },
  run = run,
}
