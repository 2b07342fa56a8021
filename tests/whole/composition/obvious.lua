-- obvious.lua - decoding the slow, obvious way: every step feeds whole sequences to an empty cache, one at a time, and
-- asks the processors as if for the first time. Greedy search, sampling, beam search and contrastive search for one prompt.
-- The same edits of hidden states in scripts.lua, whose sequences are rows.
local function edits(model)
  local v = vec.new(model.width)
  for i = 0, model.width - 1 do v[i] = ((i * 37) % 11 - 5) / 4 end
  return { { layer = model.n_layers - 1, vector = v, from = 4 }, { layer = 0, place = "mlp", op = "scale", scale = 0.5 },
    { layer = 1, op = "call", scale = 3, from = 3 } }
end

local function cap(h)
  for i = 1, #h do
    local norm = h[i]:norm()
    if norm > h.scale then h[i]:mul(h.scale / norm) end
  end
end

local function new_seq(ctx)
  local seq = ctx:seq_new()
  if ctx.params.steered then seq:steer(edits(ctx:facts())) end
  return seq
end

local function scores_of(ctx, ids, normalise)
  local seq = new_seq(ctx)
  seq:append(ids)
  local scores = ctx:seq_forward({ seq }, "last")
  if normalise then ctx:log_softmax(scores) end
  ctx:seq_process({ seq }, { 1 }, scores)
  return scores, seq
end

local function copy(ids)
  local out = {}
  for i = 1, #ids do out[i] = ids[i] end
  return out
end

local function one_row(ctx)
  while not ctx:done() do
    local scores, seq = scores_of(ctx, copy(ctx:input_ids(1)))
    local token = ctx.do_sample and ctx:multinomial(ctx:softmax(scores))[1] or ctx:argmax(scores, 1)
    seq:free()
    ctx:append(token)
  end
end

-- The scores of every beam, each from a cache of its own, side by side.
local function beam_scores(ctx, beams, room)
  for k, beam in ipairs(beams) do
    local scores, seq = scores_of(ctx, beam.ids, true)
    local row, from = room:row(k), scores:row(1)
    for id = 0, ctx.n_vocab - 1 do row[id] = from[id] end
    seq:free()
  end
end

local function extended(ids, token)
  ids = copy(ids)
  ids[#ids + 1] = token
  return ids
end

local function suffix(ctx, ids)
  local out = {}
  for i = ctx.prompt_len + 1, #ids do out[#out + 1] = ids[i] end
  return out
end

local function beams_of(ctx, width)
  local best, live, new = {}, {}, 0
  for k = 1, width do live[k] = { ids = copy(ctx:input_ids(1)), score = k == 1 and 0 or -1e9 } end
  local room = ctx:scratch_scores(width)
  repeat
    beam_scores(ctx, live, room)
    local addends, next_live, ended = {}, {}, {}
    for k, beam in ipairs(live) do addends[k] = beam.score end
    local many = math.max(2, 1 + #ctx.eos) * width
    new = new + 1
    for rank, c in ipairs(ctx:topk_flat(room, 1, width, addends, many)) do
      local ids = extended(live[c.row].ids, c.token)
      local reason = ctx:stop_test({ suffix(ctx, ids) }, { 1 })[1]
      if reason and rank <= width then
        best[#best + 1] = { ids = ids, score = c.score / new, reason = reason, order = #best }
      end
      if reason then
        ended[#ended + 1] = { ids = ids, score = c.score - 1e9 } -- runs on where too few others do, but cannot win
      elseif #next_live < width then
        next_live[#next_live + 1] = { ids = ids, score = c.score }
      end
    end
    for k = 1, width - #next_live do next_live[#next_live + 1] = ended[k] end
    table.sort(best, function(a, b)
      if a.score ~= b.score then return a.score > b.score end
      return a.order < b.order
    end)
    for k = #best, width + 1, -1 do best[k] = nil end
    live = next_live
    local full = #best == width
  until full and live[1].score / new <= best[width].score
  local answer = best[1] or live[1]
  local ids = suffix(ctx, answer.ids)
  ctx:return_rows { { row = 1, ids = ids, reason = answer.reason or "length" } }
end

-- How much the last position of these ids is like the one among those before it that it is most like.
local function likeness(ctx, ids)
  local seq, last, most = new_seq(ctx), nil, -1
  seq:append(ids)
  ctx:keep_hidden("all", { ctx:facts().n_layers })
  ctx:seq_forward({ seq }, "last")
  local states = ctx:hidden_states()[1]
  ctx:keep_hidden("all", {})
  seq:free()
  last = states[#states]
  for i = 1, #states - 1 do
    most = math.max(most, last:dot(states[i]) / math.sqrt(last:dot(last) * states[i]:dot(states[i])))
  end
  return most
end

local function contrastive(ctx, alpha, k)
  while not ctx:done() do
    local ids, best, token = copy(ctx:input_ids(1)), -math.huge, nil
    local scores, seq = scores_of(ctx, ids)
    seq:free()
    ctx:softmax(scores)
    for _, c in ipairs(ctx:topk_flat(scores, 1, 1, { 0 }, k)) do
      local value = (1 - alpha) * c.score - alpha * likeness(ctx, extended(ids, c.token))
      if value > best then best, token = value, c.token end
    end
    ctx:append(token)
  end
end

return cadenza.strategy {
  id = "test.obvious", version = "1.0.0",
  on_hidden = function(_, _, _, h) cap(h) end,
  params = { steered = { false, "edits hidden states" },
             width = { 0, 0, 16, "beams; 0: a row at a time", integer = true },
             alpha = { 0, 0, 1, "of contrastive search; 0: none" },
             tried = { 4, 1, 100, "candidates of contrastive search", integer = true } },
  run = function(ctx)
    local p = ctx.params
    if p.alpha > 0 then contrastive(ctx, p.alpha, p.tried)
    elseif p.width > 0 then beams_of(ctx, p.width)
    else one_row(ctx) end
  end,
}
