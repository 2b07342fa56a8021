-- keyword.lua - given texts appear in what is generated: the end is held back until they did, and when there is just room
-- enough left they are written.
--
-- The plainest form of lexically constrained decoding (Hokamp and Liu, "Lexically Constrained Decoding for Sequence
-- Generation Using Grid Beam Search", 2017), for any strategy: where theirs searches for the place, this one nudges, waits
-- and in the end insists. What was found, and how far an insisted text has come, is the row's state.

local function trim(text) return text:match("^%s*(.-)%s*$") end

-- One after the other, the tokens of the texts that are missing.
local function plan_of(state)
  local plan = {}
  for _, w in ipairs(state.missing) do
    for _, id in ipairs(w.ids) do plan[#plan + 1] = id end
  end
  return plan
end

-- Every beginning of the tokens, with the boost for its last one.
local function nudges(ids, boost)
  local list = {}
  for k = 1, #ids do list[k] = { table.move(ids, 1, k, 1, {}), boost } end
  return list
end

local function begin(ctx)
  local state = { missing = {}, keep = 1, tail = "", at = 0 }
  for i, text in ipairs(ctx.params.words) do
    local word = trim(text)
    local ids = ctx:encode(text)
    if word == "" or #ids == 0 then error("words: text " .. i .. " is empty") end
    state.missing[i] = { text = word, ids = ids, nudges = nudges(ids, ctx.params.boost) }
    state.keep = math.max(state.keep, #word - 1)
  end
  state.plan = plan_of(state)
  return state
end

-- Must a row of this length go on with the plan?
local function due(state, length, ctx)
  return state.at > 0 or ctx.max_length - length <= #state.plan
end

-- What the newest token brought.
local function find_words(state, text)
  local all = state.tail .. text
  for i = #state.missing, 1, -1 do
    if all:find(state.missing[i].text, 1, true) then table.remove(state.missing, i) end
  end
  state.tail = all:sub(-state.keep)
end

local function accept(_, state, token, ctx)
  if #state.plan == 0 then return end
  local insisted = due(state, #ctx.tokens - 1, ctx) and token == state.plan[state.at + 1]
  find_words(state, ctx:token_text(token) or "")
  state.at = insisted and state.at + 1 or 0
  if state.at == 0 then
    state.plan = plan_of(state)
  elseif state.at == #state.plan then
    state.plan, state.missing, state.at = {}, {}, 0
  end
end

local function apply(_, ids, row, ctx)
  local state = ctx.state
  if #state.plan == 0 then return end
  if due(state, #ids, ctx) then
    row:mask_except(state.plan[state.at + 1])
    return
  end
  row:mask(ctx.eos)
  if ctx.params.boost ~= 0 then
    for _, w in ipairs(state.missing) do row:sequence_bias(w.nudges, ids) end
  end
end

return cadenza.processor {
  id = "keyword", version = "1.0.0",
  summary = "Make given texts appear before the end",
  params = {
    words = { type = "strings", help = "texts that must appear; a word usually begins with a space" },
    boost = { 0.0, 0, 1000, "added to the scores of tokens that begin or continue a missing text" },
  },
  create = function(p)
    if not p.words or #p.words == 0 then error("needs words = [\" some\", \" words\"]") end
  end,
  begin = begin,
  accept = accept,
  apply = apply,
}
