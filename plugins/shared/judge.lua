-- judge.lua - a model as a judge of texts. Packages share it.
--
-- The judge is the model "reward" (--with reward=FOLDER) or, without one, the request's own. Where it has a head for values (a
-- reward model, a classifier), the head is asked: its one value is what a text is worth, or, of several labels, by how much
-- `label` is likelier than not, as the logarithm of the odds. Else the judge is asked a question that yes or no answers: the
-- log-probability of `yes` less that of `no` behind the text and the question. Either way 1 / (1 + exp(-worth)) is a share. The
-- texts of a call are read in one pass, and nothing of them that a text of the call before had as well.

local function shared(a, b)
  local n = 0
  while n < #a and n < #b and a[n + 1] == b[n + 1] do n = n + 1 end
  return n
end

-- A sequence that has read as much of ids as one of the known has, and how much that is.
local function begun(ctx, name, known, ids)
  local best, most = nil, 0
  for _, k in ipairs(known) do
    local n = shared(k.ids, ids)
    if n > most then best, most = k, n end
  end
  if not best then return ctx:seq_new(name), 0 end
  return best.seq:fork():truncate(most), most
end

-- The logarithm of the odds of one label among all.
local function odds(values, label)
  if #values == 1 then return values[1] end
  local sum, most = 0, -math.huge
  for i, v in ipairs(values) do if i ~= label and v > most then most = v end end
  for i, v in ipairs(values) do if i ~= label then sum = sum + math.exp(v - most) end end
  return values[label] - most - math.log(sum)
end

local function by_head(ctx, n)
  local label = ctx.params.label < 0 and n or ctx.params.label + 1
  if label > n then error(("label %d: the judge has %d, counted from 0"):format(label - 1, n), 0) end
  return function(seqs)
    local worths = ctx:seq_value(seqs)
    for i, values in ipairs(worths) do worths[i] = odds(values, label) end
    return worths
  end, {}
end

local function by_answer(ctx, ids_of)
  local p = ctx.params
  local yes, no = ids_of(p.yes)[1], ids_of(p.no)[1]
  if not yes or not no or yes == no then error("yes and no must begin with different tokens of the judge's") end
  return function(seqs)
    local scores, worths = ctx:seq_forward(seqs, "last"), {}
    for i in ipairs(seqs) do worths[i] = scores:row(i)[yes] - scores:row(i)[no] end
    return worths
  end, ids_of(p.question)
end

-- A function of texts, lists of ids of the request's model from the prompt on, that says what each is worth.
return function(ctx)
  local name = ctx:vocab_size("reward") and "reward" or "target"
  local n_values, known, ask, question = ctx:n_values(name), {}, nil, nil
  if n_values > 0 then
    ask, question = by_head(ctx, n_values)
  else
    ask, question = by_answer(ctx, function(text) return ctx:convert(ctx:encode(text), "target", name) end)
  end
  return function(texts)
    local read, seqs = {}, {}
    for i, text in ipairs(texts) do
      local ids = ctx:convert(text, "target", name)
      local seq, n = begun(ctx, name, known, ids)
      local rest = {}
      for k = n + 1, #ids do rest[#rest + 1] = ids[k] end
      read[i], seqs[i] = { ids = ids, seq = seq }, seq:append(rest):append(question)
    end
    local worths = ask(seqs)
    for _, r in ipairs(read) do r.seq:truncate(#r.ids) end
    for _, k in ipairs(known) do k.seq:free() end
    known = read
    return worths
  end
end
