-- Experiments follow kstatus: conditions Ready, Reconciling and Stalled, and status.observedGeneration.
local hs = {status = "Progressing", message = "Waiting for the operator to look at the spec"}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return hs
end

local held = {}
if obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    if condition.status == "True" then
      held[condition.type] = condition
    end
  end
end

hs.message = obj.status.message
local failure = held["Failed"] or held["Stalled"]
if failure ~= nil then
  hs.status = "Degraded"
  hs.message = failure.message
elseif held["Complete"] ~= nil then
  hs.status = "Healthy"
elseif held["Suspended"] ~= nil then
  hs.status = "Suspended"
end
return hs
