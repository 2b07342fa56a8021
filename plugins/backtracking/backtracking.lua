-- backtracking.lua - a piece of the text that a check refuses is taken back and written anew; what passed stays and streams.
--
-- Cundy and Ermon, "SequenceMatch" (2023), and Zhang et al., "Backtracking Improves Generation Safety" (2024), train models to
-- take back; here a check says when: a pattern that a piece must have, one that it must not have, or a tool that answers "ok".
-- The first token of a piece that was refused is banned in its place, as long as there is another.

local function passes(ctx, piece)
  local p = ctx.params
  if p.must ~= "" and not piece:find(p.must) then return false end
  if p.never ~= "" and piece:find(p.never) then return false end
  if p.tool == "" then return true end
  local said = ctx:call(p.tool, piece)
  return said ~= nil and said:match("^%s*(%S+)") == "ok"
end

local function take(ctx, banned, draws)
  local scores = ctx:process(ctx:forward())
  for id in pairs(banned) do ctx:ban(scores, 1, id) end
  if draws then return ctx:multinomial(ctx:softmax(scores))[1] end
  return (ctx:argmax(scores, 1))
end

local function run(ctx)
  local p, draws = ctx.params, ctx.do_sample
  local kept, bytes, tries, banned, first, backs = 0, 0, 0, {}, nil, 0
  while not ctx:done() do
    local token = take(ctx, first and {} or banned, draws)
    first = first or token
    ctx:append(token)
    local piece = ctx:text():sub(bytes + 1)
    if ctx:done() or piece:find(p.ends) then
      local n = #ctx:input_ids() - ctx.prompt_len
      if tries < p.tries and not passes(ctx, piece) then
        ctx:rewind(n - kept)
        banned[first], tries, backs = true, tries + 1, backs + 1
      else
        kept, bytes, tries, banned = n, bytes + #piece, 0, {}
        ctx:commit(kept)
      end
      first = nil
    end
  end
  ctx:result("taken_back", { backs }, "int64")
end

return cadenza.strategy {
  id = "backtracking", version = "1.0.0", one_row = true, rewinds = true,
  summary = "Take back pieces of the text that a check refuses, and keep the others",
  params = {
    ends  = { "[.!?\n]$", "a piece ends where this pattern is at its end" },
    must  = { "", "a piece has this pattern" },
    never = { "", "a piece does not have this pattern" },
    tool  = { "", "who answers \"ok\" to a piece that may stay" },
    tries = { 5, 0, 1000, "how often a piece is written anew before it stays as it is", integer = true },
  },
  run = run,
}
