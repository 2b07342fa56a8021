return cadenza.processor { apply = function(p, ids, row)
  local s = ("key = %s, [%d]"):format("v", 3)
  for k, v in s:gmatch("(%w+) *= *(%w+)") do s = s .. k:rep(2, v) end
  s = s:gsub("%f[%w]%a-(%a)", { y = 1 }):gsub("()%b[]", "%1%0"):gsub(".", function(c) return c:upper() end)
  local ok, e = pcall(string.find, s, "(a*(.)%w(%s*))", -5)
  table.sort({ 3, 1, 2 }, function(a, b) return a > b end)
  row[0] = xpcall(error, tostring, {}) and 1 or #s + select("#", table.unpack({ 1, 2, nil, 4 }, 1, 4))
end }
