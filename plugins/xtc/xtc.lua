-- xtc.lua - exclude top choices: now and then, of the tokens that are likely enough only the least likely one stays.
--
-- Philipp Emanuel Weidmann, text-generation-webui pull request 6335 (2024). The die is ctx.rng: Philox keyed by the
-- request's seed, this plugin, the row and the position, so it falls the same in any company and after a rewind.

local function spare(set, ids)
  if #ids == 1 then set:set(ids[1]) end
end

-- Ids that are never excluded: the ends of sequence, and tokens that are one of the texts.
local function begin(ctx)
  local spared = bitset.new(ctx.n_vocab):set(ctx.eos)
  for _, text in ipairs(ctx.params.spare or {}) do spare(spared, ctx:encode(text)) end
  if not ctx.params.spare then
    local has_tokenizer, ids = pcall(ctx.encode, ctx, "\n")
    if has_tokenizer then spare(spared, ids) end
  end
  return { spared = spared }
end

local function apply(p, _, row, ctx)
  if ctx.rng:uniform() >= p.probability then return end
  local probs = row:copy():softmax()
  -- no more than 1 / threshold tokens can be that likely
  local best, values = probs:topk(math.min(#row, math.floor(1 / p.threshold) + 1))
  local n = 0
  while n < #best and values[n + 1] >= p.threshold do n = n + 1 end
  for i = 1, n - 1 do
    if ctx.state.spared:test(best[i]) then return end
  end
  if n > 1 then row:mask(best:sub(1, n - 1)) end
end

return cadenza.processor {
  id = "xtc", version = "1.0.0",
  summary = "Exclude the likeliest tokens, with a given probability",
  params = {
    threshold   = { 0.1, 0.001, 0.5, "probability from which a token is likely enough; fewer than two: nothing happens" },
    probability = { 0.5, 0, 1, "how often it happens; 0: never" },
    spare       = { type = "strings", help = "tokens never excluded: then the row is left alone; unset: the newline. The "
                                             .. "end of sequence always is one" },
  },
  idle = function(p) return p.probability == 0 end,
  begin = begin,
  apply = apply,
}
