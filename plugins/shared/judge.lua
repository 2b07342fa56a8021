-- judge.lua - a model as a judge of texts: how much likelier it finds yes than no. Packages share it.
--
-- The judge is the model "reward" (--with reward=FOLDER) or, without one, the request's own. What a text is worth is the
-- log-probability of `yes` less that of `no` behind the text and the question, so that 1 / (1 + exp(-worth)) is the share of yes
-- among the two. The texts of a call are read in one pass, and nothing of them that a text of the call before had as well.

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

-- A function of texts, lists of ids of the request's model from the prompt on, that says what each is worth.
return function(ctx)
  local p = ctx.params
  local name = ctx:vocab_size("reward") and "reward" or "target"
  local function ids_of(text) return ctx:convert(ctx:encode(text), "target", name) end
  local question, yes, no, known = ids_of(p.question), ids_of(p.yes)[1], ids_of(p.no)[1], {}
  if not yes or not no or yes == no then error("yes and no must begin with different tokens of the judge's") end
  return function(texts)
    local read, seqs, worths = {}, {}, {}
    for i, text in ipairs(texts) do
      local ids = ctx:convert(text, "target", name)
      local seq, n = begun(ctx, name, known, ids)
      local rest = {}
      for k = n + 1, #ids do rest[#rest + 1] = ids[k] end
      read[i], seqs[i] = { ids = ids, seq = seq }, seq:append(rest):append(question)
    end
    local scores = ctx:seq_forward(seqs, "last")
    for i, r in ipairs(read) do
      worths[i] = scores:row(i)[yes] - scores:row(i)[no]
      r.seq:truncate(#r.ids)
    end
    for _, k in ipairs(known) do k.seq:free() end
    known = read
    return worths
  end
end
