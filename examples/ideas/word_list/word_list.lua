-- word_list.lua - the words of a list, a file of the package, do not come.
return cadenza.processor {
  id = "org.example.word-list", version = "1.0.0",
  begin = function(ctx)
    local first = {}
    for word in cadenza.file("words.txt"):gmatch("%S+") do first[#first + 1] = ctx:encode(" " .. word)[1] end
    return { first = first }
  end,
  apply = function(_, _, row, ctx) row:mask(ctx.state.first) end,
}
