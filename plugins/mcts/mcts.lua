-- mcts.lua - Monte Carlo tree search over next tokens, its leaves played out side by side.
--
-- Chaffin et al., "PPL-MCTS: Constrained Textual Generation Through Discriminator-Guided MCTS Decoding" (2022), with the rule of
-- Silver et al. (2017) for which way to go: value + c * prior * sqrt(visits of the node) / (1 + visits of the child). A leaf is
-- worth the geometric mean of its tokens' probabilities, its continuation's included. Leaves of one tick share passes; a leaf
-- that is being played out counts as a visit without value, so that others are chosen beside it.

local function choose(node, c)
  local best, most
  for _, child in ipairs(node.children) do
    local value = child.visits > 0 and child.total / child.visits or 0
    local worth = value + c * child.prior * math.sqrt(node.visits) / (1 + child.visits)
    if not most or worth > most then best, most = child, worth end
  end
  return best
end

-- Down to a leaf; every node on the way is visited.
local function descend(root, c)
  local node = root
  node.visits = node.visits + 1
  while node.children do
    node = choose(node, c)
    node.visits = node.visits + 1
  end
  return node
end

local function give(node, value)
  while node do
    node.total = node.total + value
    node = node.parent
  end
end

-- Children of leaves that go on: the likeliest tokens after each.
local function expand(ctx, leaves, width)
  local seqs, rows = {}, {}
  for i, leaf in ipairs(leaves) do seqs[i], rows[i] = leaf.seq, 1 end
  local probs = ctx:softmax(ctx:seq_process(seqs, rows, ctx:seq_forward(seqs, "last")))
  for i, leaf in ipairs(leaves) do
    local ids, ps = probs:row(i):topk(width)
    leaf.children = {}
    for k, id in ipairs(ids) do
      if ps[k] > 0 then
        leaf.children[#leaf.children + 1] = { parent = leaf, token = id, prior = ps[k], visits = 0, total = 0,
                                              n = leaf.n + 1, logprob = leaf.logprob + math.log(ps[k]) }
      end
    end
  end
end

-- Gives each leaf its sequence, sees whether it ends there, and plays out those that do not.
local function play(ctx, leaves)
  local going, seqs, at = {}, {}, #ctx:input_ids()
  for _, leaf in ipairs(leaves) do
    if leaf.parent and not leaf.seq then
      leaf.seq = leaf.parent.seq:fork():append(leaf.token)
      local ids = leaf.seq:ids():totable()
      leaf.over = ctx:stop_test({ table.move(ids, at + 1, #ids, 1, {}) }, { 1 })[1] and true
    end
    leaf.value = math.exp(leaf.logprob / math.max(1, leaf.n))
    if not leaf.over then going[#going + 1], seqs[#seqs + 1] = leaf, leaf.seq:fork() end
  end
  if #going == 0 then return end
  for i, r in ipairs(ctx:rollouts(seqs, ctx.params.depth, { greedy = true })) do
    local leaf = going[i]
    if leaf.n + r.n_new > 0 then leaf.value = math.exp((leaf.logprob + r.logprob) / (leaf.n + r.n_new)) end
    seqs[i]:free()
  end
  expand(ctx, going, ctx.params.width)
end

-- The token that was visited most often.
local function search(ctx)
  local p, done = ctx.params, 0
  local root = { seq = ctx:seq_of_row(1):fork(), visits = 0, total = 0, n = 0, logprob = 0 }
  play(ctx, { root })
  while done < p.simulations do
    local leaves, seen = {}, {}
    for _ = 1, math.min(p.batch, p.simulations - done) do
      local leaf = descend(root, p.c)
      done = done + 1
      if leaf.value then give(leaf, leaf.value) elseif not seen[leaf] then leaves[#leaves + 1], seen[leaf] = leaf, 1
      else seen[leaf] = seen[leaf] + 1 end
    end
    play(ctx, leaves)
    for _, leaf in ipairs(leaves) do give(leaf, leaf.value * seen[leaf]) end
  end
  local best = root.children[1]
  for _, child in ipairs(root.children) do if child.visits > best.visits then best = child end end
  return best.token, best.visits
end

local function run(ctx)
  local visits = {}
  ctx:forward()
  while not ctx:done() do
    local token, n = search(ctx)
    visits[#visits + 1] = n
    ctx:append(token)
  end
  ctx:result("visits", visits, "int64")
end

return cadenza.strategy {
  id = "mcts", version = "1.0.0", one_row = true, greedy = true,
  summary = "Monte Carlo tree search over next tokens, leaves played out side by side",
  params = {
    simulations = { 24, 1, 100000, "leaves played out for a token", integer = true },
    width       = { 4, 1, 64, "tokens that may follow a node", integer = true },
    depth       = { 8, 0, 10000, "tokens that a leaf is played out by", integer = true },
    batch       = { 6, 1, 256, "leaves played out side by side", integer = true },
    c           = { 1.0, 0, 100, "how much what is likely and little visited is preferred" },
  },
  run = run,
}
