-- args.lua - each token is chosen for what a reward says of it, too.
--
-- Khanov, Burapacheep and Li, "ARGS: Alignment as Reward-Guided Search" (2024): of the k likeliest next tokens v the one is taken
-- whose log-probability + w * reward(text .. v) is greatest, or one is drawn by softmax of that. The reward is a judge's answer
-- to a question: judge.lua. It reads all k candidates in one pass.

local judge = require "judge"

local function run(ctx)
  local p, rewards = ctx.params, {}
  local reward = judge(ctx)
  while not ctx:done() do
    local scores = ctx:forward()
    ctx:record("logits", scores)
    local row = ctx:process(scores):row(1)
    local ids, worths = row:log_softmax():topk(math.min(p.k, ctx.n_vocab))
    local so_far, texts, kept, by_token = ctx:input_ids():totable(), {}, {}, {}
    for i, id in ipairs(ids) do
      if worths[i] > -math.huge then
        kept[#kept + 1], texts[#texts + 1] = id, table.move(so_far, 1, #so_far, 1, {})
        table.insert(texts[#texts], id)
      end
    end
    for i, r in ipairs(reward(texts)) do by_token[kept[i]] = r end
    row:mask_except(kept)
    for id, r in pairs(by_token) do row[id] = row[id] + p.w * r end
    ctx:record("scores", scores)
    local token = ctx.do_sample and ctx:multinomial(ctx:softmax(scores))[1] or ctx:argmax(scores, 1)
    rewards[#rewards + 1] = by_token[token]
    ctx:append(token)
  end
  ctx:result("rewards", rewards, "float32")
end

return cadenza.strategy {
  id = "args", version = "1.0.0", one_row = true,
  summary = "Choose each token by its likelihood and by what a reward model says of it",
  params = {
    k        = { 10, 1, 256, "candidates for a token", integer = true },
    w        = { 1.5, 0, 1000, "weight of the reward; 0: none" },
    question = { "\nIs this a good answer? Answer:", "what the judge is asked behind prompt and answer" },
    yes      = { " yes", "its first token is the answer that counts for a candidate" },
    no       = { " no", "and against it" },
    label    = { -1, -1, 65535, "of a judge that is a classifier: the label that counts, from 0; -1: the last", integer = true },
  },
  run = run,
}
