-- A function of the append script: the field `agents`, with those of `names` that are new, behind the version that they come
-- with. Names have no tabs and no line ends. A full field ends with an empty line.
local function with_agents(agents, names, version)
  local MOST = 16384
  for _, name in ipairs(names) do
    if string.find(agents, '\n\n', 1, true) then break end
    if not string.find(agents, '\t' .. name .. '\n', 1, true) then
      local line = version .. '\t' .. name .. '\n'
      agents = agents .. (#agents + #line > MOST and '\n' or line)
    end
  end
  return agents
end
